"""Recognition: what is known by its canonical form and launch, and what is not quite it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Program
from hologram.atlas.text import parse_program
from hologram.atlas.verify import verify
from hologram.compiler.recognition.recognise import PATTERNS, Pattern, Recognition, recognise
from hologram.compiler.recognition.templates import Spelling
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, f32
from tests.scramble import scramble

CASES = [pytest.param(p, s, id=f"{p.name}: {s.name}") for p in PATTERNS for s in p.spellings]
SIZES = {2: [(3, 4, 5), (6, 7, 1), (1, 8, 1)], 1: [(5, 6), (1, 9)]}


def written(spelling: Spelling, dtype: DType, problem: tuple[int, ...]) -> Program:
    program = spelling.write(dtype, problem)
    verify(program)
    return program


def buffer_sizes(pattern: Pattern, problem: tuple[int, ...]) -> list[int]:
    return [math.prod(shape) for shape in pattern.shapes(problem)]


@pytest.mark.parametrize(("pattern", "spelling"), CASES)
def test_every_spelling_is_recognised(pattern: Pattern, spelling: Spelling) -> None:
    for problem in SIZES[pattern.reads]:
        if spelling.name == "a lane an element" and problem[0] != 1:
            continue  # it is of one row
        program = written(spelling, f32, problem)
        found = recognise(program, spelling.grid(problem), (), buffer_sizes(pattern, problem))
        assert found is not None
        assert (found.name, found.dtype) == (pattern.name, f32)
        assert math.prod(found.sizes) == math.prod(problem)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)
def test_every_dtype(pattern: Pattern) -> None:
    for dtype in dtypes.NUMBERS:
        problem = SIZES[pattern.reads][0]
        spelling = pattern.spellings[0]
        if not dtype.is_float and Opcode.EXP in spelling.marks:
            continue
        program = written(spelling, dtype, problem)
        found = recognise(program, spelling.grid(problem), (), buffer_sizes(pattern, problem))
        assert (found is not None) == (dtype in pattern.dtypes)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)
def test_scrambled_programs_are_recognised(pattern: Pattern) -> None:
    problem = SIZES[pattern.reads][0]
    for seed, spelling in enumerate(pattern.spellings[::3]):
        program = scramble(written(spelling, f32, problem), seed)
        assert recognise(program, spelling.grid(problem), (), buffer_sizes(pattern, problem)) is not None


GEMM = """program my_gemm rank 2 reduced 0
buffer c : f32 write
buffer b : f32 read
buffer a : f32 read
scalar m : index
scalar k : index
%0 = coordinate 0 : index
%1 = coordinate 1 : index
%2 = extent 1 : index
%3 = scalar k : index
%4 = constant 0 : index
%5 = constant 1 : index
%6 = constant 0.0 : f32
%7 = loop %4, %3, %5, %6 (%8 : index, %9 : f32) : f32
  %10 = mul %0, %3 : index
  %11 = add %8, %10 : index
  %12 = load a %11 : f32
  %13 = mul %8, %2 : index
  %14 = add %13, %1 : index
  %15 = load b %14 : f32
  %16 = mul %15, %12 : f32
  %17 = add %9, %16 : f32
  yield %17
end
%18 = mul %0, %2 : index
%19 = add %18, %1 : index
store c %19, %7
"""
M, K, N = 6, 5, 7


def gemm(
    text: str = GEMM,
    grid: tuple[int, ...] = (M, N),
    scalars: tuple[int, ...] = (M, K),
    sizes: tuple[int, ...] = (M * N, K * N, M * K),
) -> Recognition | None:
    program = parse_program(text)
    verify(program)
    return recognise(program, grid, scalars, sizes)


def test_sizes_may_be_scalars_and_extents_and_parameters_in_any_order() -> None:
    found = gemm()
    assert found is not None
    assert found.sizes == (M, K, N)
    assert found.positions == (2, 1, 0)
    assert (
        str(found)
        == "matrix product 6 x 5 x 7 of f32 (a b, lanes (m, n), a loop of mul and add) runs as matmul"
    )


NEAR_MISSES: dict[str, Callable[[], Recognition | None]] = {
    "a store more": lambda: gemm(GEMM + "store c %0, %7\n"),
    "another stride": lambda: gemm(GEMM.replace("%13 = mul %8, %2", "%13 = mul %8, %3")),
    "another constant": lambda: gemm(GEMM.replace("constant 0.0", "constant 1.0")),
    "another zero": lambda: gemm(GEMM.replace("constant 0.0", "constant -0.0")),
    "another start": lambda: gemm(GEMM.replace("%4 = constant 0", "%4 = constant 1")),
    "another step": lambda: gemm(GEMM.replace("%5 = constant 1", "%5 = constant 2")),
    "another opcode": lambda: gemm(GEMM.replace("%17 = add", "%17 = max")),
    "another operand": lambda: gemm(GEMM.replace("load b %14", "load a %14"), sizes=(M * N, M * K, M * K)),
    "another place": lambda: gemm(GEMM.replace("store c %19", "store c %18")),
    "one lane less": lambda: gemm(grid=(M - 1, N)),
    "another width": lambda: gemm(grid=(M, N - 1)),
    "another depth": lambda: gemm(scalars=(M, K - 1)),
    "no depth": lambda: gemm(scalars=(M, 0)),
    "no lanes": lambda: gemm(grid=(0, N), sizes=(0, K * N, 0)),
    "a result too small": lambda: gemm(sizes=(M * N - 1, K * N, M * K)),
    "an operand too small": lambda: gemm(sizes=(M * N, K * N - 1, M * K)),
    "operands too large": lambda: gemm(sizes=(M * N, 2 * K * N, 2 * M * K)),
    "a workgroup": lambda: gemm(GEMM.replace("reduced 0", "reduced 0 workgroup 64")),
    "a sum that is read and written": lambda: gemm(
        GEMM.replace("c : f32 write", "c : f32 read_write").replace(
            "store c %19, %7", "%20 = load c %19 : f32\n%21 = add %7, %20 : f32\nstore c %19, %21"
        )
    ),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_are_not_recognised(name: str) -> None:
    assert NEAR_MISSES[name]() is None


GUARDED = """%40 = scalar m : index
%41 = lt %0, %40 : bool
%42 = ge %1, %4 : bool
%43 = and %41, %42 : bool
if %43
"""


@pytest.mark.parametrize("guard", [M, M + 1, M - 1])
def test_a_guard_that_all_lanes_pass_is_none(guard: int) -> None:
    head, loop, rest = GEMM.partition("%6 = constant")
    head = head.replace("%4 = constant 0 : index", "")
    text = head + "%4 = constant 0 : index\n" + GUARDED + loop + rest + "else\nend\n"
    assert (gemm(text, scalars=(guard, K)) is not None) == (guard >= M)


def test_an_unused_scalar_does_not_matter() -> None:
    found = gemm(scalars=(99, K))
    assert found is not None
    assert found == replace(found, sizes=(M, K, N))
