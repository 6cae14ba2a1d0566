"""Programs on complex numbers, and what becomes of them: programs on their parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hologram.atlas import complex_parts
from hologram.atlas import functions as atlas
from hologram.atlas.builder import Builder, Value
from hologram.atlas.evaluate import evaluate
from hologram.atlas.functions import select
from hologram.atlas.opcodes import COMPLEX_FUNCTIONS, Opcode
from hologram.atlas.program import Access, Program
from hologram.atlas.text import format_program, parse_program
from hologram.atlas.verify import verify
from hologram.compiler.functions.complex_numbers import FUNCTIONS
from hologram.compiler.lowering.parts import parted, scalars
from hologram.compiler.passes import Goal
from hologram.compiler.pipeline import canonical, held
from hologram.foundation.dtypes import COMPLEX, DType, bool_, c64, c128, f32
from hologram.foundation.errors import ProgramError

N = 64
OPCODES = sorted(FUNCTIONS, key=lambda o: o.value)


def program(compute, dtype: DType, result: DType | None = None, operands: int = 2) -> Program:
    b = Builder("atlas_trial")
    i = b.coordinate(0)
    given = [b.load(b.buffer(f"x{k}", dtype, Access.READ), i) for k in range(operands)]
    value: Value = compute(*given)
    b.store(b.buffer("out", result or value.dtype, Access.WRITE), i, value.to(result or value.dtype))
    return b.build()


def operand(rng: np.random.Generator, dtype: DType) -> Any:
    return (rng.uniform(-3, 3, N) + 1j * rng.uniform(-3, 3, N)).astype(dtype.numpy)


def both(p: Program, arrays: list[Any], out: DType, numbers: dict | None = None) -> list[Any]:
    """What the program and its form on parts give."""
    results = []
    for q in (p, held(p)):
        verify(q)
        assert q is p or not any(t.is_complex for t in q.types.values())
        buffers = {f"x{k}": x.view(x.real.dtype) if q is not p else x for k, x in enumerate(arrays)}
        result = np.zeros(N, out.numpy)
        buffers["out"] = result.view(out.part.numpy) if q is not p else result
        given = numbers or {}
        if q is not p:
            parts = [part for s in p.scalars for part in scalars(given[s.name], s.dtype)]
            given = dict(zip((s.name for s in q.scalars), parts, strict=True))
        evaluate(q, buffers, given, (N,))
        results.append(result)
    return results


def close(a: Any, b: Any, units: float = 64) -> None:
    eps = np.finfo(a.real.dtype).eps
    assert np.all(np.abs(a - b) <= units * eps * np.maximum(np.abs(a), 1e-30))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("opcode", OPCODES, ids=[o.value for o in OPCODES])
def test_every_opcode_is_what_the_evaluator_says(opcode: Opcode, dtype: DType) -> None:
    if opcode is Opcode.REDUCE_ADD:
        b = Builder("atlas_sums", rank=2, reduced=1)
        at = b.coordinate(0) * b.extent(1) + b.coordinate(1)
        total = atlas.reduce_add(b.load(b.buffer("x", dtype, Access.READ), at))
        b.store(b.buffer("out", dtype, Access.WRITE), b.coordinate(0), total)
        p, x = b.build(), operand(np.random.default_rng(1), dtype)
        whole, parts = np.zeros(4, dtype.numpy), np.zeros(8, dtype.part.numpy)
        evaluate(p, {"x": x, "out": whole}, {}, (4, N // 4))
        evaluate(held(p), {"x": x.view(dtype.part.numpy), "out": parts}, {}, (4, N // 4))
        return close(whole, parts.view(dtype.numpy))
    count = {Opcode.MAD: 3}.get(opcode, 1 if opcode in COMPLEX_FUNCTIONS | {Opcode.NEG} else 2)
    result = bool_ if opcode in (Opcode.EQ, Opcode.NE) else dtype
    p = program(lambda x, *more: x.builder.emit(opcode, result, x, *more), dtype, result, count)
    rng = np.random.default_rng(2)
    arrays = [operand(rng, dtype) for _ in range(count)]
    if result is bool_:
        arrays[1][::2] = arrays[0][::2]
        whole, parts = both(p, arrays, result)
        assert (whole == parts).all()
        assert 0 < whole.sum() < N
    else:
        close(*both(p, arrays, dtype))


def test_memory_choices_branches_loops_and_scalars() -> None:
    b = Builder("atlas_all", workgroup=4)
    x, out = b.buffer("x0", c64, Access.READ), b.buffer("out", c128, Access.WRITE)
    shared = b.shared("kept", c64, 8)
    i, a = b.coordinate(0), b.scalar("a", c64)
    thread = b.position(Opcode.THREAD)
    b.shared_store(shared, thread, b.load(x, i))
    b.barrier()
    z = b.shared_load(shared, thread)
    chosen = select(complex_parts.real(z) > 0.0, z, a)
    (turned,) = b.if_(
        complex_parts.imag(chosen) > 0.0, lambda: (complex_parts.conjugate(chosen),), lambda: (chosen * 2.0,)
    )
    (total,) = b.loop(0, 3, lambda k, t: (t * t + turned,), first=(turned,))
    b.store(out, i, total.to(c128))
    p = b.build()
    assert parse_program(format_program(p)) == p
    close(*both(p, [operand(np.random.default_rng(3), c64) * 0.2], c128, {"a": 0.5 - 0.25j}), units=1e11)


def test_constants_are_written_and_read() -> None:
    numbers = (complex(-0.0, 1.5), complex(float("inf"), -0.0), 2 + 0j)
    p = program(lambda x: x * numbers[0] + numbers[1] / (x + numbers[2]), c64, operands=1)
    again = parse_program(format_program(p))
    assert again == p
    assert str(again) == str(p)


def test_real_programs_are_left_alone_and_forms_are_real() -> None:
    p = program(lambda x, y: x + y, f32)
    assert parted(p, Goal()) is p
    assert not any(t.is_complex for t in canonical(held(program(lambda x, y: x + y, c64))).types.values())


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (lambda x: x.builder.emit(Opcode.REAL, c128.part, x), "the part of a complex dtype"),
        (lambda x: x.builder.emit(Opcode.MAX, c64, x, x), "the dtype must be one of"),
        (lambda x: x.builder.emit(Opcode.LT, bool_, x, x), "the dtype must be one of"),
        (
            lambda x: x.builder.emit(Opcode.PAIR, c128, complex_parts.real(x), complex_parts.imag(x)),
            "its parts must be",
        ),
    ],
)
def test_rules_of_complex_numbers(wrong, rule: str) -> None:
    with pytest.raises(ProgramError, match=rule):
        verify(program(wrong, c64, operands=1))
