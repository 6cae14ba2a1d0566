"""Canonical form: variants of a program share it, other programs do not, and it changes no bit of a result."""

from __future__ import annotations

import os

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hologram.atlas.builder import Builder, Value
from hologram.atlas.evaluate import evaluate
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.atlas.text import format_program, parse_program
from hologram.atlas.verify import verify
from hologram.compiler.pipeline import canonical, canonical_text, identity
from hologram.foundation import dtypes
from tests.programs import Case, programs
from tests.scramble import scramble

BOUNDED = settings(
    max_examples=60,
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    phases=[p for p in Phase if p is not Phase.explain],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def spiced(case: Case, seed: int) -> dict[str, np.ndarray]:
    """The case's inputs with subnormals and extremes among them; what is only written holds a strange number."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for parameter in case.program.buffers:
        array = case.buffers[parameter.name].copy()
        arrays[parameter.name] = array
        if parameter.name.startswith(("out", "row")):
            array[:] = True if parameter.dtype.kind == "bool" else 77
        elif parameter.dtype.is_float:
            tiny = np.array([5e-324, 1e-45, 6e-8, 1e-39, 1e308, 3e38, -1e-310], np.float64)
            with np.errstate(all="ignore"):
                special = tiny.astype(array.dtype)
            chosen = rng.random(array.size) < 0.2
            array[chosen] = special[rng.integers(0, special.size, chosen.sum())]
    return arrays


def results(
    program: Program, names: list[str], arrays: dict[str, np.ndarray], case: Case
) -> list[np.ndarray]:
    """What the evaluator leaves in the buffers, as bits but for NaN, all of which are one."""
    buffers = {b.name: arrays[n].copy() for b, n in zip(program.buffers, names, strict=True)}
    scalars = dict(zip((s.name for s in program.scalars), case.scalars.values(), strict=True))
    evaluate(program, buffers, scalars, case.grid)
    found = []
    for parameter in program.buffers:
        array = buffers[parameter.name]
        if parameter.dtype.is_float:
            nan = np.isnan(array.astype(np.float64))
            bits = array.view(f"u{array.itemsize}")
            found.append(np.where(nan, np.asarray(np.nan, array.dtype).view(bits.dtype), bits))
        else:
            found.append(array)
    return found


@BOUNDED
@given(case=programs(), seed=st.integers(0, 2**32 - 1))
def test_variants_share_text_and_bits(case: Case, seed: int) -> None:
    other = scramble(case.program, seed)
    verify(other)
    assert canonical_text(other) == canonical_text(case.program)
    assert identity(other) == identity(case.program)
    names = [b.name for b in case.program.buffers]
    arrays = spiced(case, seed)
    want = results(case.program, names, arrays, case)
    for program in (other, canonical(case.program)):
        got = results(program, names, arrays, case)
        for name, g, w in zip(names, got, want, strict=True):
            np.testing.assert_array_equal(g, w, err_msg=f"{name} of\n{format_program(program)}")


@BOUNDED
@given(case=programs())
def test_the_form_is_a_program_and_its_own_form(case: Case) -> None:
    form = canonical(case.program)
    verify(form)
    assert canonical(form) == form
    assert (form.name, form.buffers, form.scalars) == (
        case.program.name, case.program.buffers, case.program.scalars
    )  # fmt: skip
    assert parse_program(format_program(form)) == form
    assert parse_program(canonical_text(form)) == parse_program(canonical_text(case.program))


class _Effects:
    """Draws programs that load, store and count atomically on both sides of branches and in loops."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.builder = Builder("atlas_effects")
        self.buffers = [self.builder.buffer(n, dtypes.i32, Access.READ_WRITE) for n in ("x", "y")]
        lane = self.builder.coordinate(0)
        self.places = [lane, lane + 3, self.builder.constant(2, dtypes.index)]
        self.values = [lane.to(dtypes.i32), self.builder.scalar("factor", dtypes.i32)]

    def value(self) -> Value:
        return self.draw(st.sampled_from(self.values))

    def step(self, depth: int) -> None:
        b, draw = self.builder, self.draw
        kind = draw(st.integers(0, 7 if depth < 2 else 5))
        buffer, place = draw(st.sampled_from(self.buffers)), draw(st.sampled_from(self.places))
        if kind <= 1:
            self.values.append(b.load(buffer, place))
        elif kind <= 3:
            b.store(buffer, place, self.value())
        elif kind == 4:
            self.values.append(b.atomic(Opcode.ATOMIC_ADD, buffer, place, self.value()))
        elif kind == 5:
            self.values.append(
                draw(st.sampled_from([Value.__add__, Value.__mul__]))(self.value(), self.value())
            )
        elif kind == 6:
            condition = self.value() < self.value()
            found = b.if_(condition, lambda: self.inside(depth), lambda: self.inside(depth))
            self.values.extend(found)
        else:
            count, first = draw(st.integers(0, 3)), [self.value()]
            found = b.loop(0, count, lambda k, x: self.inside(depth, k, x), first=first)
            self.values.extend(found)

    def inside(self, depth: int, *entering: Value) -> list[Value]:
        places, values = list(self.places), list(self.values)
        self.places += entering[:1]
        self.values += entering[1:]
        for _ in range(self.draw(st.integers(0, 4))):
            self.step(depth + 1)
        result = self.value()
        self.places, self.values = places, values
        return [result]


@st.composite
def effects(draw: st.DrawFn) -> Program:
    """A program on buffers x and y with a scalar `factor`."""
    writer = _Effects(draw)
    for _ in range(draw(st.integers(2, 8))):
        writer.step(0)
    writer.builder.store(writer.buffers[0], writer.places[0], writer.value())
    return writer.builder.build()


@BOUNDED
@given(program=effects(), seed=st.integers(0, 2**32 - 1))
def test_effects_keep_their_order(program: Program, seed: int) -> None:
    verify(program)
    form, other = canonical(program), scramble(program, seed)
    verify(form)
    verify(other)
    assert canonical(form) == form
    assert canonical_text(other) == canonical_text(program)
    rng = np.random.default_rng(seed)
    given_arrays = [rng.integers(-9, 9, 8).astype(np.int32) for _ in program.buffers]
    found = []
    for p in (program, form, other):
        mine = {b.name: a.copy() for b, a in zip(p.buffers, given_arrays, strict=True)}
        # One lane: what another stores meanwhile, a load may see or not.
        evaluate(p, mine, {s.name: seed % 7 - 3 for s in p.scalars}, (1,))
        found.append([mine[b.name] for b in p.buffers])
    for later in found[1:]:
        for got, want in zip(later, found[0], strict=True):
            np.testing.assert_array_equal(got, want, err_msg=format_program(program))


@BOUNDED
@given(case=programs())
def test_fast_math_gives_a_program_and_settles(case: Case) -> None:
    fast = canonical(case.program, fast_math=True)
    verify(fast)
    assert canonical(fast, fast_math=True) == fast
    assert fast.buffers == case.program.buffers
