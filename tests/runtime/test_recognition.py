"""Naive programs run as tuned kernels, and give what they would have given."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.evaluate import evaluate
from hologram.atlas.text import parse_program
from hologram.compiler.recognition.recognise import PATTERNS, Pattern, recognise
from hologram.compiler.recognition.templates import Spelling
from hologram.foundation.dtypes import DType, bf16, f16, f32, f64, i32, u32
from tests.compiler.recognition.test_recognise import GEMM
from tests.needs import needs

PROBLEMS = {2: [(9, 33, 18), (70, 1, 3), (1, 300, 1), (20, 65, 1)], 1: [(1, 700), (7, 300)]}
CASES = [
    pytest.param(p, s, d, id=f"{p.name}-{d}-{s.name}")
    for p in PATTERNS
    for k, s in enumerate(p.spellings)
    for d in (p.dtypes if k == 0 else (f32,))
    if k % 3 == 0 and d in (f32, f64, f16, bf16, i32, u32)
]


def arrays(pattern: Pattern, dtype: DType, problem: tuple[int, ...]) -> list[np.ndarray]:
    """Operands, and a result full of something strange."""
    rng = np.random.default_rng(math.prod(problem))
    *reads, out = (math.prod(shape) for shape in pattern.shapes(problem))
    found = [
        rng.uniform(-3, 3, size).astype(dtype.numpy)
        if dtype.is_float
        else rng.integers(0, 1 << 20, size).astype(dtype.numpy)
        for size in reads
    ]
    return [*found, np.full(out, 77).astype(dtype.numpy)]


def close(got: np.ndarray, want: np.ndarray, dtype: DType, count: int, largest: float) -> None:
    """Within the operations' bounds: 4 ULP, and the rounding of sums in another order."""
    if not dtype.is_float:
        np.testing.assert_array_equal(got, want)
        return
    epsilon = {"f32": 2.0**-23, "f64": 2.0**-52, "f16": 2.0**-10, "bf16": 2.0**-7}[dtype.name]
    summed = 2.0**-52 if dtype is f64 else 2.0**-23
    bound = 4 * epsilon * np.abs(want.astype(np.float64)) + 2 * summed * count * largest
    error = np.abs(got.astype(np.float64) - want.astype(np.float64))
    assert (error <= bound).all(), (error / bound).max()


@pytest.mark.parametrize(("pattern", "spelling", "dtype"), CASES)
def test_a_recognised_program_gives_the_same(
    pattern: Pattern, spelling: Spelling, dtype: DType, executor: hg.Executor
) -> None:
    needs(executor, dtype)
    for problem in PROBLEMS[pattern.reads][: 4 if dtype is f32 else 1]:
        if spelling.name == "a lane an element" and problem[0] != 1:
            continue
        program, grid = spelling.write(dtype, problem), spelling.grid(problem)
        given = arrays(pattern, dtype, problem)
        buffers = [executor.allocate(a.size, dtype).from_numpy(a) for a in given]
        names = [b.name for b in program.buffers]
        with executor.profile() as profile:
            executor.run(program, dict(zip(names, buffers, strict=True)), lanes=grid)
        found = recognise(program, grid, (), [a.size for a in given])
        assert found is not None
        assert (program.name in {k.name for k in profile.kernels}) is not found.pays(executor.limits)
        want = [a.copy() for a in given]
        evaluate(program, dict(zip(names, want, strict=True)), {}, grid)
        largest = max(1.0, *(float(np.abs(a.astype(np.float64)).max()) for a in want))
        close(
            buffers[-1].to_numpy(), want[-1], dtype, problem[1], largest**2 if pattern.reads == 2 else largest
        )


M, K, N = 6, 5, 7


def run_gemm(executor: hg.Executor, text: str, c: hg.Buffer, b: hg.Buffer, a: hg.Buffer) -> list[str]:
    with executor.profile() as profile:
        executor.run(text, {"a": a, "b": b, "c": c}, lanes=(M, N), m=M, k=K)
    return [k.name for k in profile.kernels]


@pytest.fixture
def operands(executor: hg.Executor) -> dict[str, hg.Buffer]:
    rng = np.random.default_rng(0)
    made = {n: executor.allocate(size) for n, size in (("a", M * K), ("b", K * N), ("c", M * N))}
    for buffer in made.values():
        buffer.from_numpy(rng.normal(size=buffer.size).astype(np.float32))
    return made


def naive(text: str, operands: dict[str, hg.Buffer]) -> np.ndarray:
    found = {n: b.to_numpy().copy() for n, b in operands.items()}
    evaluate(parse_program(text), found, {"m": M, "k": K}, (M, N))
    return found["c"]


def test_the_tuned_kernel_runs(executor: hg.Executor, operands: dict[str, hg.Buffer]) -> None:
    want = naive(GEMM, operands)
    names = run_gemm(executor, GEMM, **operands)
    assert "my_gemm" not in names
    assert names
    np.testing.assert_allclose(operands["c"].to_numpy(), want, rtol=1e-5, atol=1e-5)


def test_debugging_says_what_runs(
    executor: hg.Executor, operands: dict[str, hg.Buffer], monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setenv("HOLOGRAM_DEBUG", "2")
    executor.structures.clear()  # what is known already says nothing anew
    run_gemm(executor, GEMM, **operands)
    assert "launch: my_gemm: matrix product 6 x 5 x 7 of f32" in capsys.readouterr().err


NEAR = {
    "a store more": GEMM + "store c %0, %7\n",
    "another stride": GEMM.replace("%13 = mul %8, %2", "%13 = mul %8, %3"),
    "another constant": GEMM.replace("constant 0.0", "constant 1.0"),
}


@pytest.mark.parametrize("name", NEAR)
def test_near_misses_run_as_written(name: str, executor: hg.Executor, operands: dict[str, hg.Buffer]) -> None:
    want = naive(NEAR[name], operands)
    assert run_gemm(executor, NEAR[name], **operands) == ["my_gemm"]
    if name != "a store more":  # lanes race for that place
        np.testing.assert_allclose(operands["c"].to_numpy(), want, rtol=1e-5, atol=1e-5)


def test_shared_memory_runs_as_written(executor: hg.Executor) -> None:
    """One buffer as a, b and c of a product of 4 x 4: what lanes read depends on who came first, but it runs."""
    square = executor.allocate(16).from_numpy(np.zeros(16, np.float32))
    other = executor.allocate(16).from_numpy(np.ones(16, np.float32))
    with executor.profile() as profile:
        executor.run(GEMM, {"a": square, "b": other, "c": square}, lanes=(4, 4), m=4, k=4)
    assert [k.name for k in profile.kernels] == ["my_gemm"]
    np.testing.assert_array_equal(square.to_numpy(), np.zeros(16))


def test_a_buffer_that_is_too_small_runs_as_written(executor: hg.Executor) -> None:
    a, b, c = (executor.allocate(n).from_numpy(np.ones(n, np.float32)) for n in (M * K, K * N, M * N - 1))
    assert run_gemm(executor, GEMM, c, b, a) == ["my_gemm"]
    np.testing.assert_array_equal(c.to_numpy(), np.full(M * N - 1, K))
