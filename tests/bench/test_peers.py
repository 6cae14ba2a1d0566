"""The harness' own logic: turns, checks of results, goals and ratios; no library is timed."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench import peers
from bench.contenders import MODULES
from bench.suites import Goal, Result, Row, cpu, jit, jit_webgpu, webgpu
from bench.work import WORKS, check, format_size, make_inputs, parse_size
from bench.worker import Worker
from hologram.benchmark import timing
from hologram.benchmark.models import declared
from hologram.benchmark.timing import Pace, microseconds, take_turn

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("text", "size"), [("1K", 1024), ("100K", 102400), ("16M", 1 << 24), ("512", 512)])
def test_sizes_are_read_and_written_alike(text: str, size: int) -> None:
    assert parse_size(text) == size
    assert format_size(size) == text


def test_short_calls_are_timed_several_to_a_sample() -> None:
    now, calls = [0.0], [0]

    def call() -> None:
        calls[0] += 1
        now[0] += 10e-6

    samples = take_turn(call, Pace(turns=1, turn_seconds=1e-3, samples=1), clock=lambda: now[0])
    assert samples == pytest.approx([10e-6] * len(samples))
    assert calls[0] > 5 * len(samples)
    assert microseconds(samples) == pytest.approx(10)


def test_long_calls_are_timed_as_often_as_asked() -> None:
    clock = itertools.count(0.0, 0.25)
    samples = take_turn(lambda: None, Pace(turns=1, turn_seconds=0, samples=4), clock=lambda: next(clock))
    assert samples == [0.25] * 4
    clock = itertools.count(0.0, 5.0)
    assert take_turn(lambda: None, Pace(turns=1, turn_seconds=0, samples=4), clock=lambda: next(clock)) == [
        5.0
    ]


def test_a_busy_machine_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 0.0, 0.0), raising=False)
    assert "load average 1.5" in (timing.busy(2) or "")
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 9.0, 9.0), raising=False)
    assert timing.busy(2) is None


@pytest.mark.parametrize("name", WORKS)
def test_results_are_checked(name: str) -> None:
    batch = name.rpartition("_")[0] in declared.MODELS
    inputs = make_inputs(name, 2 if batch else 64 if name in ("matmul", "mlp", "attention") else 4096)
    right = WORKS[name].reference(inputs).astype(np.float32)
    assert check(name, inputs, right) is None
    wrong = right.copy()
    wrong.flat[wrong.size // 2] += 1 + abs(wrong.flat[wrong.size // 2])
    assert "off by" in (check(name, inputs, wrong) or "")
    wrong.flat[0] = np.nan
    assert check(name, inputs, wrong) is not None
    assert "shape" in (check(name, inputs, np.zeros(3, np.float32)) or "")


def test_inputs_are_random_and_the_same_everywhere() -> None:
    first, again = make_inputs("add", 1024), make_inputs("add", 1024)
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
        assert len(np.unique(first[name])) > 1000


def test_the_ratio_is_to_the_best_peer() -> None:
    row = Row("exp", 1 << 20, Goal(ratio=0.5))
    result = cpu.SUITE.result(
        row, {"hologram": 50.0, "numpy": 200.0, "torch": 125.0}, {"jax": "not installed"}
    )
    assert result.ratio == 0.4
    assert result.met is True
    record = json.loads(json.dumps(result.record()))
    assert {k: record[k] for k in ("suite", "row", "size", "ours_us", "peers_us", "ratio")} == {
        "suite": "cpu",
        "row": "exp",
        "size": "1M",
        "ours_us": 50.0,
        "peers_us": {"numpy": 200.0, "torch": 125.0},
        "ratio": 0.4,
    }
    assert record["missing"] == {"jax": "not installed"}


def test_a_ratio_may_be_to_some_of_the_peers() -> None:
    row = Row("adam", 1024, Goal(ratio=0.5), against=("torch",))
    times = {"hologram jit": 50.0, "jax": 25.0, "torch": 125.0}
    assert jit.SUITE.result(row, times, {}).ratio == 0.4
    assert jit.SUITE.result(row, {"hologram jit": 50.0, "jax": 25.0}, {}).met is None


def test_the_mean_is_of_the_rows_that_count() -> None:
    suite, times = jit_webgpu.SUITE, {"hologram jit": 1.0, "taichi": 4.0}
    results = [
        suite.result(Row("chain", 1024), times, {}),
        suite.result(Row("softmax", 1024), times | {"taichi": 1.0}, {}),
    ]
    assert peers.geometric_mean(results) == pytest.approx(0.5)
    aside = suite.result(Row("matmul", 64, in_mean=False), times, {})
    assert peers.geometric_mean([r for r in [*results, aside] if r.in_mean]) == pytest.approx(0.5)


def test_launches_are_held_against_their_goal() -> None:
    row = Row("mlp", 256, Goal(ratio=0.9, dispatches=2))
    times = {"hologram jit": 1.0, "tinygrad": 2.0}
    assert [jit_webgpu.SUITE.result(row, times, {}, count).met for count in (2, 3, None)] == [
        True,
        False,
        None,
    ]
    assert jit_webgpu.SUITE.result(row, times, {}, 2).record()["dispatches"] == 2
    assert str(row.goal) == "≤ 0.9 x, ≤ 2 dispatches"


def test_goals() -> None:
    assert Goal(us=3).met(2.9, None) is True
    assert Goal(us=3).met(3.1, 0.1) is False
    assert Goal(ratio=1.0).met(5.0, 1.01) is False
    assert Goal(ratio=1.0).met(5.0, None) is None
    assert Goal().met(5.0, 0.1) is None
    assert Result("cpu", "add", "1K", None, {"numpy": 1.0}, Goal(us=3)).met is None


def test_every_row_has_its_goal() -> None:
    goals = {(r.work, r.label): r.goal for r in cpu.rows()}
    assert goals["exp", "1M"] == goals["tanh", "16M"] == Goal(ratio=0.5)
    assert goals["gelu", "16M"] == Goal(ratio=0.7)
    assert goals["exp", "100K"] == goals["softmax", "4M"] == Goal(ratio=1.0)
    assert goals["add", "1K"] == Goal(us=3)
    assert goals["matmul", "1024"] == Goal(ratio=1.05)
    assert {r.goal for r in webgpu.rows()} == {Goal(ratio=1.0)}
    goals = {(r.work, r.label): r.goal for r in jit.rows()}
    assert goals["chain", "1K"] == Goal(us=4)
    assert goals["chain", "16M"] == Goal(ratio=0.4)
    assert (
        goals["mlp", "256x1024x256"] == goals["layer_norm", "1M"] == goals["softmax", "1M"] == Goal(ratio=0.8)
    )
    assert goals["adam", "50x100K"] == Goal(ratio=0.5)
    goals = {(r.work, r.label): r.goal for r in jit_webgpu.rows()}
    assert goals["attention", "8x256x64"] == Goal(ratio=0.9)
    assert goals["mlp", "256x1024x256"] == Goal(ratio=0.9, dispatches=2)
    assert goals["adam", "50x100K"] == Goal(dispatches=10)
    assert jit_webgpu.SUITE.geometric_mean == 0.4


@pytest.mark.parametrize(
    "name", [name for name in peers.SUITES if name != "programs"]
)  # see test_programs.py
def test_a_suite_knows_its_contenders_and_works(name: str) -> None:
    suite = peers.load(name)
    assert suite.name == name
    assert {suite.ours, *suite.peers} <= MODULES.keys()
    for row in suite.rows():
        assert row.work in WORKS
        assert {*row.against} <= {*suite.peers}


def test_a_worker_prepares_takes_turns_and_names_what_is_absent() -> None:
    worker = Worker("numpy", "cpu")
    try:
        assert worker.opened.value == "cpu"
        assert worker.prepare("gelu", 1024).absent
        assert worker.prepare("add", 1024).value is True
        samples = worker.turn(Pace(turns=1, turn_seconds=0, samples=2)).value
        assert len(samples) == 2
        assert min(samples) > 0
        assert "KeyError" in worker.prepare("no such work", 1024).failed
        assert worker.prepare("sum", 1024).value is True
        worker.process.kill()
        worker.process.join()
        assert "its process ended" in worker.turn(timing.QUICK).failed
    finally:
        worker.close()


def test_a_worker_imports_the_hologram_of_the_checkout_it_is_told(tmp_path: Path) -> None:
    package = tmp_path / "hologram"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('the other checkout')\n")
    worker = Worker("hologram", "cpu", peers.BEFORE, str(tmp_path))
    try:
        assert worker.name == peers.BEFORE
        assert worker.opened.failed == "RuntimeError: the other checkout"
    finally:
        worker.close()


@pytest.mark.parametrize("work", ["chain", "softmax", "layer_norm"])
def test_a_peer_computes_the_functions(work: str) -> None:
    worker = Worker("numpy", "cpu")
    try:
        assert worker.prepare(work, 4096).value is True
        assert worker.dispatches().absent
    finally:
        worker.close()


def test_the_command_refuses_rows_it_does_not_have() -> None:
    command = [sys.executable, "bench/peers.py", "--suite", "cpu", "--rows", "add,frobnicate"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "frobnicate" in done.stderr


def test_the_command_refuses_a_checkout_that_is_none(tmp_path: Path) -> None:
    command = [sys.executable, "bench/peers.py", "--suite", "cpu", "--before", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "no checkout of hologram" in done.stderr


def test_beside_earlier_code_a_row_has_no_other_peer_and_may_not_be_slower() -> None:
    suite = peers.load("jit")
    alone, rows = peers.beside_before(suite, list(suite.rows()))
    assert alone.peers == (peers.BEFORE,)
    assert {(r.goal, r.against) for r in rows} == {(Goal(ratio=peers.NOISE), ())}
