"""CUDA C++ and MSL without their hardware: NVRTC compiles it, and clang runs it against the evaluator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hologram.atlas.evaluate import evaluate
from hologram.atlas.program import Program
from hologram.backends.cuda.compiler import NVRTC
from hologram.backends.cuda.dialect import cuda
from hologram.backends.metal.dialect import msl
from hologram.compiler.dialect import Dialect
from hologram.compiler.pipeline import lower
from hologram.compiler.source.codegen import Source, generate
from hologram.foundation import dtypes, store
from hologram.foundation.dtypes import f64
from hologram.machine.limits import Limits
from tests.golden.programs import PROGRAMS
from tests.programs import Case, programs
from tests.shaders import emulator
from tests.shaders.emulator import Emulation

LIMITS = Limits(frozenset(dtypes.ALL), 2**40, 2**40, 32, 65535, 256, 32768, 32, False, 64, False)
KEPT = store.Store(emulator.KEPT, 2**30)
LANGUAGES: dict[str, Callable[[], Dialect]] = {
    "metal": msl,
    "cuda": cuda,
    "cuda64": partial(cuda, 64),
}


def spelled(program: Program, language: str) -> Source:
    dialect = LANGUAGES[language]()
    return generate(lower(program, dialect), dialect, LIMITS)


@dataclass(frozen=True)
class Run:
    """A program with what it runs on."""

    program: Program
    buffers: dict[str, np.ndarray]
    scalars: dict[str, int | float | bool]
    grid: tuple[int, ...]
    ulp: float = 0.0


def flat(name: str, size: int = 1001) -> Run:
    """A map program on random elements, some of them special."""
    program = PROGRAMS[name]
    random = np.random.default_rng(7)
    buffers = {}
    for b in program.buffers:
        if b.dtype.is_float:
            array = random.normal(size=size, scale=40).astype(b.dtype.numpy)
            array[:6] = [np.nan, np.inf, -np.inf, -0.0, 127.5, -129.0]
        elif b.dtype.kind == "bool":
            array = random.integers(0, 2, size).astype(bool)
        else:
            bits = min(b.dtype.bits, 20)
            array = random.integers(0, 2**bits, size).astype(b.dtype.numpy)
        buffers[b.name] = array
    return Run(
        program, buffers, {s.name: 3 for s in program.scalars}, (size,), ulp=2 if "silu" in name else 0
    )


def rows(name: str, count: int, length: int, result: int) -> Run:
    random = np.random.default_rng(8)
    x = random.normal(size=count * length).astype(np.float32)
    out = np.zeros(result, np.float32)
    return Run(PROGRAMS[name], {"x": x, "out": out}, {}, (count, length), ulp=64)


RUNS: dict[str, Run] = {
    **{name: flat(name) for name in PROGRAMS if name not in ("softmax_f32", "column_sum_f32", "reverse_f32")},
    "reverse_f32": flat("reverse_f32", 256),
    "softmax_f32": rows("softmax_f32", 5, 1024, 5 * 1024),
    "softmax_f32 unaligned": rows("softmax_f32", 3, 333, 3 * 333),
    "column_sum_f32": rows("column_sum_f32", 37, 100, 37),
    "column_sum_f32 few": rows("column_sum_f32", 3, 2000, 3),
}


@pytest.fixture(scope="session", params=list(LANGUAGES))
def emulation(request: pytest.FixtureRequest) -> Emulation:
    sources = {name: spelled(program, request.param) for name, program in PROGRAMS.items()}
    suffix = LANGUAGES[request.param]().suffix
    return Emulation(sources, suffix)


@pytest.mark.parametrize("name", RUNS)
def test_a_kernel_computes_what_the_evaluator_says(emulation: Emulation, name: str):
    run = RUNS[name]
    got = emulation.run(
        name.split()[0], run.program, run.buffers, tuple(run.scalars.values()), run.grid, LIMITS
    )
    expected = {n: a.copy() for n, a in run.buffers.items()}
    evaluate(run.program, expected, run.scalars, run.grid)
    for n, array in expected.items():
        assert_close(got[n], array, run.ulp)


def assert_close(got: np.ndarray, expected: np.ndarray, ulp: float) -> None:
    if not ulp:
        # NumPy's comparison knows no bf16.
        if expected.dtype.itemsize == 2 and expected.dtype.kind not in "iu":
            got, expected = got.astype(np.float32), expected.astype(np.float32)
        np.testing.assert_array_equal(got, expected)
        return
    epsilon = float(np.finfo(expected.dtype).eps)
    scale = np.maximum(np.abs(expected.astype(np.float64)), epsilon)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(expected))
    finite = np.isfinite(expected)
    error = (
        np.abs(got.astype(np.float64)[finite] - expected.astype(np.float64)[finite]) / scale[finite] / epsilon
    )
    assert error.max(initial=0.0) <= ulp


@pytest.mark.parametrize("language", LANGUAGES)
def test_random_programs_compute_what_the_evaluator_says(language: str):
    known = tuple(d for d in dtypes.COMPUTED if language != "metal" or d != f64)

    # Clang takes many programs at once in the time of a few; making a failure smaller would take it minutes.
    @settings(
        max_examples=2,
        deadline=None,
        suppress_health_check=tuple(HealthCheck),  # pyright: ignore[reportArgumentType]
        derandomize=True,
        phases=(Phase.generate,),
    )
    @given(st.lists(programs(known, exact=True, division=True), min_size=20, max_size=20))
    def compare(cases: list[Case]) -> None:
        kernels = {str(k): replace(c.program, name=f"atlas_random_{k}") for k, c in enumerate(cases)}
        sources = {name: spelled(program, language) for name, program in kernels.items()}
        emulation = Emulation(sources, LANGUAGES[language]().suffix)
        for (name, program), case in zip(kernels.items(), cases, strict=True):
            scalars = tuple(case.scalars.values())
            got = emulation.run(name, program, case.buffers, scalars, case.grid, LIMITS)
            expected = {n: a.copy() for n, a in case.buffers.items()}
            evaluate(program, expected, case.scalars, case.grid)
            for n, array in expected.items():
                assert_close(got[n], array, 0)

    compare()


def compile_cubin(text: str, architecture: str) -> bytes:
    """What the backend's own compiler makes of a text, kept as the emulator keeps what clang makes."""
    pytest.importorskip("cuda.bindings")
    compiler = NVRTC(int(architecture.removeprefix("sm_")))
    key = store.key(compiler.identity, text)
    return KEPT.kept("cubin", key, lambda: compiler.compile("kernel", text), bytes)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize("language", ["cuda", "cuda64"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_nvrtc_compiles_a_kernel(name: str, language: str, architecture: str):
    source = spelled(PROGRAMS[name], language)
    cubin = compile_cubin(source.text, architecture)
    assert cubin[:4] == b"\x7fELF"
    assert source.entry.encode() in cubin


def test_nvrtc_refuses_what_is_wrong():
    with pytest.raises(Exception, match="nonsense"):
        compile_cubin('extern "C" __global__ void k() { nonsense; }', "sm_90")


def test_the_emulator_sees_a_barrier_that_some_threads_miss():
    source = spelled(PROGRAMS["reverse_f32"], "metal")
    broken = source.text.replace("threadgroup_barrier(", "if (thread_index < 9u) threadgroup_barrier(")
    emulation = Emulation({"broken": replace(source, text=broken)}, "metal")
    run = RUNS["reverse_f32"]
    with pytest.raises(AssertionError, match="others wait"):
        emulation.run("broken", run.program, run.buffers, (), run.grid, LIMITS)
