"""Bounds in CUDA C++ and MSL, which check nothing themselves: guarded where no proof is found, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hologram.atlas.builder import Builder
from hologram.atlas.evaluate import evaluate
from hologram.atlas.functions import reduce_max
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.backends.webgpu.wgsl.dialect import wgsl
from hologram.compiler.source.codegen import Source
from hologram.compiler.source.generator import PLAIN, ProgramGenerator
from hologram.foundation.dtypes import f16, f32, i32, i64, index
from hologram.machine.plan import Target
from tests.compiler.source.test_native import LANGUAGES, LIMITS
from tests.compiler.source.test_native_operations import PLANNED, layout
from tests.golden.programs import PROGRAMS
from tests.shaders.emulator import Emulation

R, W, RW = Access.READ, Access.WRITE, Access.READ_WRITE


def shifted() -> Program:
    """out[i + by] = x[i]: the stores run over either end."""
    b = Builder("atlas_shifted")
    x, out, i = b.buffer("x", f32, R), b.buffer("out", f32, W), b.coordinate(0)
    b.store(out, i + b.scalar("by", index), b.load(x, i))
    return b.build()


def scattered() -> Program:
    """out[at[i]] = x[at[i]] where at[i] is anything; a load that misses gives anything, so only hits are stored."""
    b = Builder("atlas_scattered")
    at, x, out = b.buffer("at", i32, R), b.buffer("x", f16, R), b.buffer("out", f16, W)
    place = b.load(at, b.coordinate(0)).to(index)
    b.store(out, place, b.load(x, place))
    return b.build()


def counted() -> Program:
    """An atomic anywhere, its old value used."""
    b = Builder("atlas_counted")
    at, out, old, i = (
        b.buffer("at", i32, R),
        b.buffer("out", i32, RW),
        b.buffer("old", i32, W),
        b.coordinate(0),
    )
    found = b.atomic(Opcode.ATOMIC_ADD, out, b.load(at, i).to(index), 1)
    b.store(old, i, found * 0 + 1)
    return b.build()


def shared() -> Program:
    """Threads write each other's elements of workgroup memory, and beyond."""
    b = Builder("atlas_shared", workgroup=64)
    tile, guard = b.shared("tile", i32, 64), b.shared("guard", i32, 64)
    at, out, i = b.buffer("at", i32, R), b.buffer("out", i32, W), b.coordinate(0)
    thread = b.position(Opcode.THREAD)
    b.shared_store(tile, thread, 7)
    b.shared_store(guard, thread, 9)
    b.barrier()
    b.shared_store(tile, thread + b.load(at, i).to(index), 8)
    b.barrier()
    b.store(out, i, b.shared_load(tile, thread) * 10 + b.shared_load(guard, thread))
    return b.build()


def overflowing_row() -> Program:
    """out[row, k] = x[row, k] - max of the row, of more columns than out has room for in its last row."""
    b = Builder("atlas_row", rank=2, reduced=1)
    x, out = b.buffer("x", f32, R), b.buffer("out", f32, W)
    place = b.coordinate(0) * b.extent(1) + b.coordinate(1)
    value = b.load(x, place)
    b.store(out, place, value - reduce_max(value))
    return b.build()


def wide() -> Program:
    """out[at[i] * 2] = x[at[i] * 2] where at[i] is anything of 64 bits: cut to 32 it would lie inside."""
    b = Builder("atlas_wide")
    at, x, out = b.buffer("at", i64, R), b.buffer("x", i32, R), b.buffer("out", i32, RW)
    place = b.load(at, b.coordinate(0)).to(index) * 2
    b.store(out, place, b.load(x, place))
    b.atomic(Opcode.ATOMIC_ADD, out, place + 1, 5)
    return b.build()


random = np.random.default_rng(5)
WILD = random.permutation(
    np.concatenate([np.arange(40), [40, 41, 2**31 - 1, -1, -2, -(2**31), 2**30, 10**6]])
).astype(np.int32)
FAR = np.array(
    [0, 3, 2**32, 2**32 + 1, -(2**32) + 2, 2**33 + 4, 2**32 + 5, -(2**61) + 6, 2**61, -(2**61) + 1, 7]
)
CASES: dict[str, tuple[Program, dict[str, np.ndarray], tuple[int, ...], tuple[int, ...], set[str]]] = {
    "past the end": (
        shifted(), {"x": np.arange(100, dtype=np.float32), "out": np.zeros(50, np.float32)}, (7,), (100,), {"out"},
    ),
    "before the start": (
        shifted(), {"x": np.arange(100, dtype=np.float32), "out": np.zeros(95, np.float32)}, (-9,), (100,), {"out"},
    ),
    "anywhere": (
        scattered(),
        {"at": WILD, "x": np.arange(40).astype(np.float16), "out": np.zeros(40, np.float16)},
        (), (48,), {"x", "out"},
    ),
    "an atomic": (
        counted(),
        {"at": WILD, "out": np.arange(40, dtype=np.int32), "old": np.zeros(48, np.int32)}, (), (48,), {"out"},
    ),
    "workgroup memory": (
        shared(),
        {"at": np.array([0] * 60 + [200, -70, 4, 5], np.int32), "out": np.zeros(64, np.int32)}, (), (64,), {"tile"},
    ),
    "more than an index counts": (
        wide(), {"at": FAR, "x": np.arange(1, 17, dtype=np.int32), "out": np.zeros(16, np.int32)},
        (), (11,), {"x", "out"},
    ),
    "vectors of a map": (
        PROGRAMS["add_f32"],
        {"a": np.ones(101, np.float32), "b": np.ones(101, np.float32), "out": np.zeros(90, np.float32)},
        (), (101,), {"out"},
    ),
    "vectors of a row": (
        overflowing_row(),
        {"x": random.normal(size=300).astype(np.float32), "out": np.zeros(287, np.float32)}, (), (3, 100), {"out"},
    ),
}  # fmt: skip


def launched(
    program: Program, language: str, lengths: Sequence[int], scalars: Sequence[int], grid: Sequence[int]
) -> tuple[Source, set[str]]:
    """The source of a launch, and what is guarded in it."""
    generator = ProgramGenerator(program, LANGUAGES[language](), LIMITS, None)
    variant = generator.variant(grid, scalars, lengths)
    return generator.source(variant), {name for name, _ in variant.guarded}


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_misses_a_buffer_does_nothing(language: str) -> None:
    sources = {}
    for name, (program, buffers, scalars, grid, guarded) in CASES.items():
        lengths = [buffers[b.name].size for b in program.buffers]
        sources[name], found = launched(program, language, lengths, scalars, grid)
        assert found == guarded, name
    entries = {n: s for n, s in sources.items() if n != "before the start"}  # the kernel of the first case
    emulation = Emulation(entries, LANGUAGES[language]().suffix)
    assert sources["before the start"].text == sources["past the end"].text
    for name, (program, buffers, scalars, grid, _) in CASES.items():
        kernel = name if name in entries else "past the end"
        got = emulation.run(kernel, program, buffers, scalars, grid, LIMITS)  # poison around must stay
        want = {n: a.copy() for n, a in buffers.items()}
        names = dict(zip((s.name for s in program.scalars), scalars, strict=True))
        evaluate(program, want, names, grid)
        for n, array in want.items():
            np.testing.assert_array_equal(got[n], array, err_msg=f"{name}: {n}")


def test_without_guards_the_emulator_sees_it() -> None:
    program, buffers, scalars, grid, _ = CASES["past the end"]
    source = ProgramGenerator(program, LANGUAGES["cuda"](), LIMITS, None).source(PLAIN)
    emulation = Emulation({"bare": source}, "cu")
    with pytest.raises(AssertionError, match="bare wrote outside of out"):
        emulation.run("bare", program, buffers, scalars, grid, LIMITS)


@pytest.mark.parametrize("language", LANGUAGES)
def test_one_guard_leaves_the_other_accesses_as_they_are(language: str) -> None:
    program = PROGRAMS["add_f32"]
    short, guarded = launched(program, language, (101, 101, 90), (), (101,))
    whole, proven = launched(program, language, (101, 101, 101), (), (101,))
    assert (guarded, proven) == ({"out"}, set())
    assert "out_length" in short.text
    assert "a_4" in short.text  # still loaded four at a time
    assert short.measured == (2,)
    assert whole == ProgramGenerator(program, LANGUAGES[language](), LIMITS, None).source(PLAIN)
    assert "_length" not in whole.text


def test_positions_that_an_index_cannot_count_miss(executor: Any) -> None:
    buffers = {n: executor.tensor(a) for n, a in CASES["more than an index counts"][1].items()}
    executor.run(wide(), buffers, lanes=len(FAR))
    want = np.zeros(16, np.int32)
    for k in (0, 3, 7):
        want[2 * k : 2 * k + 2] = (2 * k + 1, 5)
    np.testing.assert_array_equal(buffers["out"].to_numpy(), want)


def test_a_language_that_checks_itself_gets_no_guards() -> None:
    generator = ProgramGenerator(PROGRAMS["add_f32"], wgsl(), LIMITS, None)
    assert generator.variant((101,), (), (1, 1, 1)) == PLAIN


# Positions that come from memory without a condition, or from counting what is there.
GATHERING = {
    "sort",
    "argsort",
    "topk",
    "searchsorted",
}
# Positions that stay inside by a condition on others than themselves.
CONDITIONAL = {
    "concat",
    "pad",
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
    "logcumsumexp",
    "split_spectrum",
    "odd_spectrum",
    "real_transform",
    "avg_pool1d_gradient",
    "avg_pool2d_gradient",
}


def test_operations_are_proven_inside() -> None:
    found = set()
    for operation in PLANNED:
        for dtype in operation.dtypes[:1]:
            for sample in operation.samples(np.random.default_rng(0), dtype):
                operands, attributes = operation.bind(sample.operands, sample.attributes)
                inputs = [layout(o) for o in operands]
                outputs = operation.infer(inputs, attributes)
                plan = operation.plan(inputs, outputs, attributes, Target(LIMITS))
                sizes = [getattr(p, "size", 0) for p in (*inputs, *outputs, *plan.scratch)]
                for step in plan.steps:
                    if not isinstance(step.kernel, Program) or 0 in step.grid:
                        continue
                    generator = ProgramGenerator(step.kernel, LANGUAGES["cuda"](), LIMITS, None)
                    lengths = [sizes[k] for k in step.operands]
                    if generator.variant(step.grid, step.scalars, lengths).guarded:
                        found.add(operation.name)
    assert found == GATHERING | CONDITIONAL
