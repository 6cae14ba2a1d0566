"""Tuning: every candidate computes the same, the fastest is kept, and plans follow what was kept."""

from __future__ import annotations

import gc
import pickle
import threading
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.backends import registry
from hologram.foundation import dtypes, store
from hologram.machine.choices import Candidate, Problem
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Target, Tile
from hologram.opset.tiles import product_tile
from hologram.opset.tiles.product import product_plan
from hologram.tuning import tuner
from hologram.tuning.winners import KIND, Winners, candidate, record
from tests.devices import limits
from tests.opset.test_epilogues import residual

STRANGE = 123.0
QUICK = tuner.Pace(rounds=3, turn_seconds=1e-4)


def planned(a: Layout, b: Layout, out: Layout, limits: Limits, chosen: Candidate, fused: bool) -> Plan:
    epilogue = residual(out.shape[-1]) if fused else None
    return product_plan(a, b, out, dtypes.f32, Target(limits, lambda problem: chosen), epilogue)


SIZES = [(1, 37, 1030, 45), (3, 9, 67, 70), (1, 68, 516, 36), (2, 260, 9, 520)]
# Which operands are crossed: one of two neighbours has an epilogue as well, and every size meets two.
CROSSED = [(False, False), (True, False), (True, True), (False, True)]
PRODUCTS = [(sizes, crossed) for k, sizes in enumerate(SIZES) for crossed in (CROSSED[k], CROSSED[k - 1])]


@pytest.mark.parametrize(("sizes", "crossed"), PRODUCTS, ids=str)
def test_every_candidate_computes_the_product(
    sizes: tuple[int, int, int, int], crossed: tuple[bool, bool], adapter: hg.Executor
) -> None:
    rng = np.random.default_rng(0)
    batch, m, k, n = sizes
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((batch, m, k), (batch, k, n)))
    bias, rest = (rng.integers(-3, 4, s).astype(np.float32) for s in ((n,), (batch * m, n)))
    product = a.astype(np.float64) @ b.astype(np.float64)
    fused = product.reshape(-1, n) + bias + 2 * rest + np.arange(batch * m)[:, None]
    with_epilogue = crossed[0] != crossed[1]
    expected = np.maximum(fused, 0).reshape(product.shape) if with_epilogue else product
    tensors, layouts = [], []
    for operand, is_crossed in zip((a, b), crossed, strict=True):
        lying = np.swapaxes(operand, 1, 2) if is_crossed else operand
        layout = Layout.contiguous(dtypes.f32, lying.shape)
        layouts.append(layout.permute((0, 2, 1)) if is_crossed else layout)
        tensors.append(adapter.tensor(np.ascontiguousarray(lying)))
    further = [adapter.tensor(bias), adapter.tensor(rest)]
    out = Layout.contiguous(dtypes.f32, product.shape)
    own = {"library_products": frozenset()} if with_epilogue else {}  # no library takes an epilogue
    found = list(product_tile.candidates(sizes, dtypes.f32, replace(adapter.target.limits, **own)))
    assert len(found) == len(set(found))
    for chosen in found:
        plan = planned(layouts[0], layouts[1], out, adapter.target.limits, chosen, with_epilogue)
        stems = {(s.kernel.stem, s.kernel.workgroup[:2]) for s in plan.steps if isinstance(s.kernel, Tile)}
        assert stems == {(chosen.stem, chosen.threads)}
        result = adapter.full(product.shape, STRANGE)
        operands = [*tensors, *(further if with_epilogue else ()), result]
        adapter.bound.call(plan, [t.buffer for t in operands])()
        np.testing.assert_array_equal(result.to_numpy(), expected, err_msg=str(chosen))


def test_few_results_of_long_sums_are_cut_into_parts() -> None:
    for changes in ({"software": False}, {"software": True, "subgroup": 8, "parallelism": 16}):
        assert product_tile.default((1, 32, 8192, 32), dtypes.f32, limits(**changes)).parts > 1
        assert product_tile.default((1, 1024, 8192, 1024), dtypes.f32, limits(**changes)).parts == 1
    deep = product_tile.default((1, 8, 3_000_000, 8), dtypes.f32, limits(software=True))
    assert deep.parts * product_tile.SOFTWARE_DEPTH >= 3_000_000


def test_candidates_stay_within_the_limits() -> None:
    small = limits(software=False, max_workgroup_threads=64, shared_bytes=5_000)
    found = list(product_tile.candidates((1, 512, 512, 512), dtypes.f32, small))
    assert found
    for one in found:
        rows, columns = product_tile.of(one).extent(one)
        assert one.threads[0] * one.threads[1] <= 64
        assert (rows + columns + 8) * one.constant("TILE_K") * 4 <= 5_000


def test_a_choice_that_the_device_cannot_go_is_passed_over() -> None:
    foreign = Candidate("matmul_subgroup", (("ROWS", 32), ("SUBGROUP", 64)), (64, 1))
    asked = Problem("matmul", dtypes.f32, (1, 64, 64, 64), (True, False))
    adapter = limits(software=False)
    assert (
        product_tile.choice((1, 64, 64, 64), asked, Target(adapter, lambda problem: foreign)).stem == "matmul"
    )


def test_limits_are_plain_values() -> None:
    with hg.Executor("cpu") as executor:
        assert pickle.loads(pickle.dumps(executor.limits)) == executor.limits == executor.device.limits
        assert not any(callable(getattr(executor.limits, f.name)) for f in fields(executor.limits))


def test_problems_share_powers_of_two() -> None:
    one, other = (Problem("matmul", dtypes.f32, (1, 500, n, 3)) for n in (513, 1024))
    assert one == other
    assert one.sizes == (1, 512, 1024, 4)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLOGRAM_CACHE_DIR", str(tmp_path))
    return tmp_path


PROBLEM = Problem(product_tile.KERNEL, dtypes.f32, (1, 16, 512, 32), (True, True))


def test_the_fastest_is_kept_for_other_processes(adapter: hg.Executor, folder: Path) -> None:
    winners = Winners(adapter.device.info)
    assert winners(PROBLEM) is None
    (found,) = tuner.tune(adapter, [PROBLEM], winners, QUICK)
    assert found.default in found.seconds
    assert found.seconds[found.winner] <= found.seconds[found.default]
    assert winners(PROBLEM) == Winners(adapter.device.info)(PROBLEM) == found.winner
    other = replace(adapter.device.info, driver="another")
    assert Winners(other)(PROBLEM) is None


def test_records_that_are_none_are_passed_over(folder: Path) -> None:
    whole = Candidate("matmul", (("TILE_K", 8),), (8, 8), 2)
    assert candidate(record(whole)) == whole
    for broken in (None, {}, [1, 2], {**record(whole), "threads": [8]}, {**record(whole), "parts": "many"},
                   {**record(whole), "constants": None}):  # fmt: skip
        with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
            candidate(broken)  # type: ignore[arg-type]
    info = registry.probe("cpu").devices[0]
    Winners(info).put(PROBLEM, whole)
    assert Winners(info)(PROBLEM) == whole
    for content in (b"[1, 2]", b"{", b"\xff", b"{}"):
        store.shared().put(KIND, Winners(info).key(PROBLEM), content)
        assert Winners(info)(PROBLEM) is None
    assert store.shared().stats(KIND).corrupt == 4


def test_programs_are_tuned_in_the_background(
    backend: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLOGRAM_TUNE", "1")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((16, 512), (32, 512)))
    try:
        executor = hg.Executor(backend)
    except hg.BackendUnavailable as error:
        pytest.skip(str(error))
    with executor:
        tensors = executor.tensor(a), executor.tensor(b)
        np.testing.assert_array_equal(hg.linear(*tensors).to_numpy(), a @ b.T)
        choices = set(product_tile.candidates((1, 16, 512, 32), dtypes.f32, executor.limits))
        deadline = time.monotonic() + 120
        while len(choices) > 1 and executor.target.choices(PROBLEM) is None:
            assert time.monotonic() < deadline, "nothing was tuned"
            time.sleep(0.05)
        np.testing.assert_array_equal(hg.linear(*tensors).to_numpy(), a @ b.T)
    if len(choices) > 1:
        assert Winners(executor.device.info)(PROBLEM) in choices


def test_an_executor_that_nobody_closes_leaves_no_thread(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLOGRAM_TUNE", "1")
    executor = hg.Executor("cpu")
    problem = replace(PROBLEM, asked=(1, 8, 8, 8))
    executor.target.choices(problem)
    assert [t for t in threading.enumerate() if t.name == "hologram tuner"]
    del executor
    gc.collect()
    deadline = time.monotonic() + 60
    while any(t.name == "hologram tuner" for t in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_problem_that_fails_ends_no_tuning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not fit, say; its buffers are given back."""
    tried: list[Problem] = []
    real = tuner.measure

    def measured(host: Any, problem: Problem, *rest: Any, **how: Any) -> Any:
        tried.append(problem)
        if len(tried) == 1:
            raise hg.OutOfMemory("no room")
        return real(host, problem, *rest, **how)

    monkeypatch.setenv("HOLOGRAM_TUNE", "1")
    monkeypatch.setattr(tuner, "measure", measured)
    problems = [replace(PROBLEM, asked=(1, 8, size, 8)) for size in (8, 16)]
    with hg.Executor("cpu") as executor:
        for problem in problems:
            executor.target.choices(problem)
        deadline = time.monotonic() + 60
        while executor.target.choices(problems[1]) is None:
            assert time.monotonic() < deadline, "the second was not tuned"
            time.sleep(0.02)
    assert tried[:2] == problems
