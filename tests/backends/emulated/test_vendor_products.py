"""Products by the vendor's library, on the emulated card: however operands lie, and only where they were measured."""

from __future__ import annotations

import gc
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")

from nvmath.bindings import cublas, cublasLt  # pyright: ignore[reportAttributeAccessIssue]

import hologram as hg
from hologram.backends.cuda import vendor
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.machine.choices import Candidate, Problem
from hologram.opset.tiles import product_tile
from hologram.opset.tiles.product_library import LIBRARY
from hologram.tuning.tuner import Pace, measure
from hologram.tuning.winners import Winners
from tests.backends.emulated import cuda as machine
from tests.backends.emulated.cuda.memory import Misuse
from tests.backends.emulated.cuda.products import CublasLt
from tests.backends.emulated.test_matrix_units import choose, lying, numbers
from tests.backends.emulated.test_mutants import failing, operation

pytestmark = pytest.mark.usefixtures("installed")
HALVES = (dtypes.f16, dtypes.bf16)
WAYS = {rounded: Candidate(LIBRARY.stem, (("ROUNDED", int(rounded)),), (0, 0)) for rounded in (False, True)}


def library() -> CublasLt:
    return machine.products(machine.library().driver)


@pytest.fixture(name="executor")
def _executor(installed: None) -> Iterator[hg.Executor]:
    """What it leaves behind is looked at."""
    with hg.Executor(backend=machine.NAME) as executor:
        choose(executor, WAYS[False])
        yield executor
    del executor
    gc.collect()
    assert not library().things


@pytest.mark.parametrize("right", ["row", "crossed", "odd"])
@pytest.mark.parametrize("left", ["row", "crossed odd"])
@pytest.mark.parametrize("dtype", [dtypes.f32, *HALVES], ids=str)
def test_operands_lie_as_they_do(executor: hg.Executor, dtype: DType, left: str, right: str) -> None:
    rng = np.random.default_rng(1)
    a, b = numbers(rng, 33, 65), numbers(rng, 65, 17)
    x, y = lying(executor, a, dtype, left), lying(executor, b, dtype, right)
    before = library().calls
    np.testing.assert_array_equal(hg.matmul(x, y).astype(hg.float32).to_numpy(), a @ b)
    assert library().calls == before + 1


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_the_suites_own_operands(executor: hg.Executor, dtype: str) -> None:
    """Batches, broadcasting, nothing, views."""
    operation("matmul", dtype)(executor)
    assert library().calls


def test_what_an_epilogue_follows_is_a_kernel_of_ours(executor: hg.Executor) -> None:
    operation("linear", "f16")(executor)
    calls = library().calls
    x = executor.tensor(numbers(np.random.default_rng(0), 20, 20))
    np.testing.assert_array_equal(
        hg.linear(x, x, x[0]).to_numpy(), x.to_numpy() @ x.to_numpy().T + x[0].to_numpy()
    )
    assert library().calls == calls


def test_a_batch_is_one_call(executor: hg.Executor) -> None:
    rng = np.random.default_rng(2)
    a, b = numbers(rng, 3, 1, 20, 30), numbers(rng, 4, 30, 10)
    found = hg.matmul(executor.tensor(a), executor.tensor(b))
    np.testing.assert_array_equal(found.to_numpy(), a @ b)
    assert library().calls == 1


@pytest.mark.parametrize("refuses", [False, True])
def test_it_is_asked_once_for_what_lies_alike(executor: hg.Executor, refuses: bool) -> None:
    """Whatever memory it is in; what is aligned otherwise is another question."""
    library().refuses = refuses
    numbers_ = numbers(np.random.default_rng(7), 8, 3 * 24 * 24)
    held = [executor.tensor(row) for row in numbers_]
    for start, asked in ((0, 1), (24 * 24, 1), (1, 2)):
        for row, x in zip(numbers_, held, strict=True):
            square = row[start : start + 24 * 24].reshape(24, 24)
            found = x[start : start + 24 * 24].reshape((24, 24))
            np.testing.assert_array_equal(hg.matmul(found, found).to_numpy(), square @ square)
        assert library().asked == asked


def test_jitted_products_stand_between_graphs(executor: hg.Executor) -> None:
    x = numbers(np.random.default_rng(3), 24, 24)
    step = hg.jit(lambda x: hg.softmax(hg.relu(hg.matmul(x, x) + 1) * 2, dim=1).sum(axis=0))
    wanted = np.maximum(x @ x + 1, 0) * 2
    wanted = np.exp(wanted - wanted.max(1, keepdims=True))
    wanted = (wanted / wanted.sum(1, keepdims=True)).sum(0)
    for _ in range(5):
        np.testing.assert_allclose(step(executor.tensor(x)).to_numpy(), wanted, rtol=1e-5)
    assert library().calls == 5


def test_rounded_operands_for_who_asks(installed: None) -> None:
    with hg.Executor(backend=machine.NAME, matmul_precision="high") as executor:
        choose(executor, WAYS[True])
        a = np.random.default_rng(0).integers(-3, 4, (40, 40)).astype(np.float32) + np.float32(2.0**-14)
        x = executor.tensor(a)
        kept = a.astype(np.float64) @ a
        found = hg.matmul(x, x).to_numpy()
        np.testing.assert_allclose(found, kept, atol=0.02)
        assert abs(found - kept).max() > 1e-4, "they were not rounded"


def test_it_is_never_the_default_and_may_win(executor: hg.Executor) -> None:
    """Where a measurement says so."""
    problem = Problem(product_tile.KERNEL, dtypes.f16, (1, 32, 32, 32), (True, False))
    limits = executor.limits
    assert product_tile.default((1, 32, 32, 32), dtypes.f16, limits).stem != LIBRARY.stem
    assert WAYS[False] in set(product_tile.candidates((1, 32, 32, 32), dtypes.f16, limits))
    assert WAYS[True] in set(product_tile.candidates((1, 32, 32, 32), dtypes.f32, limits.rounding()))
    others = tuple(
        product_tile.candidates((1, 32, 32, 32), dtypes.f16, replace(limits, library_products=frozenset()))
    )
    assert all(c.stem != LIBRARY.stem for c in others)
    assert WAYS[False] in measure(executor, problem, Pace(1, 1e-6)).seconds


def test_records_tell_whether_it_was_a_candidate(executor: hg.Executor) -> None:
    """What was measured before it was installed is measured again."""
    info, problem = executor.device.info, Problem(product_tile.KERNEL, dtypes.f16, (1, 48, 48, 48))
    without = replace(info, limits=replace(info.limits, library_products=frozenset()))
    best = product_tile.default((1, 48, 48, 48), dtypes.f16, without.limits)
    Winners(without).put(problem, best)
    assert (Winners(without)(problem), Winners(info)(problem)) == (best, None)


@pytest.mark.parametrize("dtype", [dtypes.f32, *HALVES], ids=str)
def test_what_it_refuses_a_kernel_of_ours_computes(executor: hg.Executor, dtype: DType) -> None:
    """A measured choice is for many sizes and strides."""
    library().refuses = True
    rng = np.random.default_rng(6)
    a, b = numbers(rng, 3, 33, 40), numbers(rng, 40, 20)
    x, y = executor.tensor(a).astype(dtype), lying(executor, b, dtype, "crossed odd")
    np.testing.assert_array_equal(hg.matmul(x, y).astype(hg.float32).to_numpy(), a @ b)
    found = hg.linear(x, y.permute((1, 0)), executor.tensor(np.ones(20, np.float32)).astype(dtype))
    np.testing.assert_array_equal(found.astype(hg.float32).to_numpy(), a @ b + 1)
    assert not library().calls


@pytest.mark.parametrize("shape", [(9, 5, 6), (1, 600, 40), (1, 40, 600)])
def test_what_it_refuses_may_take_several_launches_of_ours(installed: None, shape: tuple[int, ...]) -> None:
    machine.library().driver.attributes |= {"MAX_GRID_DIM_Y": 4}
    library().refuses = True
    batch, m, n = shape
    rng = np.random.default_rng(8)
    a, b = numbers(rng, batch, m, 7), numbers(rng, batch, 7, n)
    with hg.Executor(backend=machine.NAME) as executor:
        choose(executor, WAYS[False])
        np.testing.assert_array_equal(hg.matmul(executor.tensor(a), executor.tensor(b)).to_numpy(), a @ b)
    assert library().asked


def test_many_matrices_are_several_calls(installed: None) -> None:
    """Of as many as a grid has along an axis: not all of the library's kernels take more."""
    machine.library().driver.attributes |= {"MAX_GRID_DIM_Y": 4}
    rng = np.random.default_rng(8)
    a, b = numbers(rng, 9, 5, 7), numbers(rng, 9, 7, 6)
    with hg.Executor(backend=machine.NAME) as executor:
        choose(executor, WAYS[False])
        np.testing.assert_array_equal(hg.matmul(executor.tensor(a), executor.tensor(b)).to_numpy(), a @ b)
        assert library().calls == 3


@pytest.mark.parametrize(
    "function",
    [
        "matmul_desc_create",
        "matmul_desc_set_attribute",
        "matrix_layout_create",
        "matrix_layout_set_attribute",
        "matmul_preference_create",
        "matmul_preference_set_attribute",
        "matmul_algo_get_heuristic",
    ],
)
def test_what_fails_while_it_is_asked_is_a_refusal(
    executor: hg.Executor, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    def fail(self: CublasLt, *arguments: Any) -> None:
        raise self.cuBLASLtError("CUBLAS_STATUS_ALLOC_FAILED")

    monkeypatch.setattr(CublasLt, function, fail)
    rng = np.random.default_rng(9)
    a, b = numbers(rng, 8, 9), numbers(rng, 9, 10)
    found = hg.matmul(executor.tensor(a), lying(executor, b, dtypes.f32, "crossed"))
    np.testing.assert_array_equal(found.to_numpy(), a @ b)
    assert not library().calls


def test_a_card_without_room_for_it(executor: hg.Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: CublasLt) -> int:
        raise self.cuBLASLtError("CUBLAS_STATUS_ALLOC_FAILED")

    x = executor.tensor(np.ones((4, 4), np.float32))
    with monkeypatch.context() as patch:
        patch.setattr(CublasLt, "create", full)
        with pytest.raises(hg.OutOfMemory, match="cublasLtCreate"):
            hg.matmul(x, x)
    np.testing.assert_array_equal(hg.matmul(x, x).to_numpy(), 4)


@pytest.mark.parametrize("cached", [True, False])
def test_the_workspace_takes_what_is_only_kept_for_later(executor: hg.Executor, cached: bool) -> None:
    """A card that is full of memory that nobody uses has room for it; one that is full of arrays does without."""
    x, held = executor.tensor(np.ones((4, 4), np.float32)), []
    for size in (100 << 18, 4 << 18):
        with suppress(hg.OutOfMemory):
            while True:
                held.append(executor.allocate(size))
    if cached:
        held.clear()
    np.testing.assert_array_equal(hg.matmul(x, x).to_numpy(), 4)
    device: Any = executor.device
    assert (device.vendor.workspace[1] >= vendor.WORKSPACE_BYTES) == cached


def test_what_fails_is_told_apart(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product that fails, and one on a device that was lost; closing is not stopped by what the library says."""

    def fail(self: CublasLt, *arguments: Any) -> None:
        raise self.cuBLASLtError("CUBLAS_STATUS_EXECUTION_FAILED")

    executor = hg.Executor(backend=machine.NAME)
    choose(executor, WAYS[False])
    x = executor.tensor(np.ones((4, 4), np.float32))
    hg.matmul(x, x).to_numpy()
    monkeypatch.setattr(CublasLt, "destroy", fail)
    monkeypatch.setattr(CublasLt, "matmul", fail)
    x = executor.tensor(np.ones((4, 4), np.float32))  # other memory: what is bound already holds the function
    with pytest.raises(hg.HologramError, match="cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"):
        hg.matmul(x, x)
    machine.library().driver.contexts[0].error = "CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(hg.DeviceLost):
        hg.matmul(x, x)
    with pytest.raises(hg.DeviceLost):
        executor.close()
    with hg.Executor(backend=machine.NAME) as other:
        choose(other, WAYS[False])
        monkeypatch.undo()
        x = other.tensor(np.ones((4, 4), np.float32))
        np.testing.assert_array_equal(hg.matmul(x, x).to_numpy(), 4)
        monkeypatch.setattr(CublasLt, "destroy", fail)


def test_the_stand_in_is_as_the_module() -> None:
    """Arguments by name and order; the numbers that stand in the backend."""
    for name, function in inspect.getmembers(CublasLt, inspect.isfunction):
        if name.startswith("_"):
            continue
        said = re.match(r"\w+\((.*?)\)", getattr(cublasLt, name).__doc__)
        assert said is not None
        wanted = [argument.split()[-1] for argument in said[1].split(", ") if argument]
        assert list(inspect.signature(function).parameters)[1:] == wanted, name
    assert (vendor.COMPUTE_32F, vendor.COMPUTE_32F_FAST_TF32) == (
        cublas.ComputeType.COMPUTE_32F,
        cublas.ComputeType.COMPUTE_32F_FAST_TF32,
    )
    assert vendor.COMPUTE_TYPE == cublasLt.ReductionScheme.COMPUTE_TYPE


def test_a_machine_without_the_library_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here nvmath is installed and cuBLAS is not; elsewhere neither may be."""
    assert vendor.bindings() is None
    monkeypatch.setattr(vendor.importlib.util, "find_spec", lambda name: None)
    assert vendor.bindings() is None
    monkeypatch.undo()
    monkeypatch.setattr(cublasLt, "get_version", lambda: 130000)
    assert vendor.bindings() is cublasLt


def other_alignment(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(vendor, "math", SimpleNamespace(gcd=lambda address, most: most))


def no_transposition(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(vendor.Described, "transpose", lambda *_: None)


def gone_at_once(patch: pytest.MonkeyPatch) -> None:
    made = vendor.Described.matrices

    def matrices(self: Any, *arguments: Any) -> int:
        found = made(self, *arguments)
        destroy, described = self._made.pop()
        destroy(described)
        return found

    patch.setattr(vendor.Described, "matrices", matrices)


def another_stream(patch: pytest.MonkeyPatch) -> None:
    matmul: Any = CublasLt.matmul

    def elsewhere(self: CublasLt, *arguments: Any) -> None:
        stream = self.driver.cuStreamCreate(1)[1]
        matmul(self, *arguments[:-1], stream)

    patch.setattr(CublasLt, "matmul", elsewhere)


def one_matrix(patch: pytest.MonkeyPatch) -> None:
    made = vendor.Described.matrices
    patch.setattr(
        vendor.Described, "matrices", lambda s, d, r, c, line, n, apart: made(s, d, r, c, line, n, 0)
    )


def no_current_context(patch: pytest.MonkeyPatch) -> None:
    create = CublasLt.create

    def elsewhere(self: CublasLt) -> int:
        found = create(self)
        self.things[found] = self.driver.contexts[1]
        return found

    patch.setattr(CublasLt, "create", elsewhere)


def any_sums(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(vendor, "COMPUTE_TYPE", 7)


@pytest.mark.parametrize(
    "plant",
    [
        other_alignment,
        no_transposition,
        gone_at_once,
        another_stream,
        one_matrix,
        no_current_context,
        any_sums,
    ],
)
def test_planted_errors_show(plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    rng = np.random.default_rng(4)
    a, b = numbers(rng, 2, 40, 50), numbers(rng, 50, 30)
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with failing(Misuse) as executor:
            choose(executor, WAYS[False])
            x = executor.tensor(np.pad(a, ((0, 0), (0, 1), (1, 2))))[:, :-1, 1:-2]
            y = lying(executor, b, dtypes.f32, "crossed odd")
            np.testing.assert_array_equal(hg.matmul(x, y).to_numpy(), a @ b)
