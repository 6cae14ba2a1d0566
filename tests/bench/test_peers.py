"""The harness' own logic: turns, checks of results, goals and ratios; no library is timed."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import itertools
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import hologram as hg
from bench import contenders
from bench.suites import SUITES, cpu, gpus, jit
from hologram.benchmark import beside, timing
from hologram.benchmark.contenders import MODULES
from hologram.benchmark.jobs import Job
from hologram.benchmark.kernels.declared import KERNELS
from hologram.benchmark.programs.table import PROGRAMS
from hologram.benchmark.suites import Goal, Result, Row, geometric_mean, own, result
from hologram.benchmark.timing import NoTime, Pace, in_turns, take_turn
from hologram.benchmark.works import WORKS, format_size, parse_size

ROOT = Path(__file__).resolve().parents[2]


def of(
    row: Row, us: dict[str, float], missing: dict[str, str], ours: str = "hologram", count: int | None = None
) -> Result:
    """A row's result from everyone's microseconds."""
    turns = {name: [spent * 1e-6] for name, spent in us.items()}
    more = {"against": row.against, "dispatches": count, "in_mean": row.in_mean}
    return result(row.work, row.label, turns, missing, row.goal, ours, **more)


def test_everyone_takes_turns_in_changing_order() -> None:
    taken: list[str] = []

    def take(name: str, given: int) -> int:
        taken.append(name)
        if (name, given) == ("b", 1):
            raise NoTime("it broke")
        return given

    found = in_turns({name: partial(take, name) for name in "abc"}, range(4))
    assert found == ({"a": [0, 1, 2, 3], "c": [0, 1, 2, 3]}, {"b": "it broke"})
    assert "".join(taken) == "abcbcacaac"
    found, _ = in_turns({"a": lambda given: given}, range(9), seconds=0.0, least=2)
    assert found == {"a": [0, 1]}
    assert in_turns({}, range(3)) == ({}, {})


def test_what_is_wrong_has_no_time_in_this_process() -> None:
    pace = Pace(turns=2, turn_seconds=0, samples=1)
    wrong = Job(lambda: None, lambda: np.ones(1), problem=lambda found: f"it is {found[0]:g}")
    made = own("row", "1K", {"ours": lambda: time.sleep(0.01), "peer": wrong}, pace, each=10)
    assert made.missing == {"peer": "wrong result: it is 1"}
    assert made.ours_us == pytest.approx(1000, rel=1.0)
    assert made.ratio is None


def test_what_runs_ahead_of_a_sample_does_not_count() -> None:
    now = [0.0]

    def pass_(seconds: float) -> None:
        now[0] += seconds

    pace = Pace(turns=1, turn_seconds=0, samples=3)
    samples = take_turn(lambda: pass_(1e-3), pace, clock=lambda: now[0], before=lambda: pass_(5.0))
    assert samples == pytest.approx([1e-3] * 3)


def test_contenders_are_chosen_by_name() -> None:
    suite = beside.by_those(SUITES["models-webgpu"], "hologram compiled,tinygrad", [*MODULES, "tinygrad"])
    assert (suite.ours, suite.peers) == ("hologram compiled", ("tinygrad",))
    assert beside.by_those(SUITES["jit"], None, [*MODULES, *contenders.MODULES]) == SUITES["jit"]


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
    work = WORKS[name]
    size = 2 if work.model else 64 if name in ("matmul", "mlp", "attention", "adam", *KERNELS) else 4096
    inputs = work.inputs(size)
    right = work.reference(inputs).astype(np.float32)

    def check(found: np.ndarray) -> str:
        return work.problem(size, inputs, found)

    assert check(right) == ""
    wrong = right.copy()
    wrong.flat[wrong.size // 8] += 1 + abs(wrong.flat[wrong.size // 8])
    assert "off by" in check(wrong)
    wrong.flat[0] = np.nan
    assert "off by nan" in check(wrong)
    assert "shape" in check(np.zeros((3, 1, 1, 1), np.float32))


def test_inputs_are_random_and_the_same_everywhere() -> None:
    first, again = WORKS["chain"].inputs(1024), WORKS["chain"].inputs(1024)
    assert not np.array_equal(first["a"], WORKS["chain"].inputs(2048)["a"][:1024])
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
        assert len(np.unique(first[name])) > 1000


def test_the_ratio_is_to_the_best_peer() -> None:
    row = Row("exp", 1 << 20, Goal(ratio=0.5))
    made = of(row, {"hologram": 50.0, "numpy": 200.0, "torch": 125.0}, {"jax": "not installed"})
    assert made.ratio == 0.4
    assert made.met is True
    record = json.loads(json.dumps(dataclasses.replace(made, suite="cpu").record()))
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
    assert of(row, times, {}, "hologram jit").ratio == 0.4
    assert of(row, {"hologram jit": 50.0, "jax": 25.0}, {}, "hologram jit").met is None


def test_the_mean_is_of_the_rows_that_count() -> None:
    times = {"hologram": 1.0, "taichi": 4.0}
    results = [of(Row("chain", 1024), times, {}), of(Row("softmax", 1024), times | {"taichi": 1.0}, {})]
    assert geometric_mean(results) == pytest.approx(0.5)
    aside = of(Row("matmul", 64, in_mean=False), times, {})
    notes = beside.report(SUITES["jit-webgpu"], [*results, aside]).notes
    assert notes[0] == "geometric mean of the ratios: 0.50 (goal ≤ 0.4)"


def test_launches_are_held_against_their_goal() -> None:
    row = Row("mlp", 256, Goal(ratio=0.9, dispatches=2))
    times = {"hologram jit": 1.0, "tinygrad": 2.0}
    assert [of(row, times, {}, "hologram jit", count).met for count in (2, 3, None)] == [
        True,
        False,
        None,
    ]
    assert of(row, times, {}, "hologram jit", 2).record()["dispatches"] == 2
    assert str(row.goal) == "≤ 0.9 x, ≤ 2 dispatches"


def test_goals() -> None:
    assert Goal(us=3).met(2.9, None) is True
    assert Goal(us=3).met(3.1, 0.1) is False
    assert Goal(ratio=1.0).met(5.0, 1.01) is False
    assert Goal(ratio=1.0).met(5.0, None) is None
    assert Goal().met(5.0, 0.1) is None
    assert of(Row("add", 1024, Goal(us=3)), {"numpy": 1.0}, {"hologram": "no"}).met is None


def test_every_row_has_its_goal() -> None:
    goals = {(r.work, r.label): r.goal for r in cpu.rows()}
    assert goals["exp", "1M"] == goals["tanh", "16M"] == Goal(ratio=0.5)
    assert goals["gelu", "16M"] == Goal(ratio=0.7)
    assert goals["exp", "100K"] == goals["softmax", "4M"] == Goal(ratio=1.0)
    assert goals["add", "1K"] == Goal(us=3)
    assert goals["matmul", "1024"] == Goal(ratio=1.05)
    assert {r.goal for r in gpus.on_webgpu()} == {Goal(ratio=1.0)}
    goals = {(r.work, r.label): r.goal for r in jit.on_the_cpu()}
    assert goals["chain", "1K"] == Goal(us=4)
    assert goals["chain", "16M"] == Goal(ratio=0.4)
    assert (
        goals["mlp", "256x1024x256"] == goals["layer_norm", "1M"] == goals["softmax", "1M"] == Goal(ratio=0.8)
    )
    assert goals["adam", "50x100K"] == Goal(ratio=0.5)
    goals = {(r.work, r.label): r.goal for r in jit.on_webgpu()}
    assert goals["attention", "8x256x64"] == Goal(ratio=0.9)
    assert goals["mlp", "256x1024x256"] == Goal(ratio=0.9, dispatches=2)
    assert goals["adam", "50x100K"] == Goal(dispatches=10)
    assert SUITES["jit-webgpu"].geometric_mean == 0.4


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_knows_its_contenders_and_works(name: str) -> None:
    suite = SUITES[name]
    assert suite.name == name
    assert {suite.ours, *suite.peers} <= {*MODULES, *contenders.MODULES}
    for row in suite.rows():
        assert row.program == (name == "programs")
        assert row.work in (PROGRAMS if row.program else WORKS)
        assert {*row.against} <= {*suite.peers}


def test_a_work_of_a_programs_name_is_measured_as_a_work(monkeypatch: pytest.MonkeyPatch) -> None:
    works, programs = [], []

    def of_work(run: beside.Run, row: Row) -> Result:
        works.append(row.label)
        return of(row, {"hologram jit": 1.0}, {}, "hologram jit")

    def of_program(run: beside.Run, row: Row, *_: object) -> Result:
        programs.append(row.work)
        return of(Row("chain", 1024), {"hologram": 1.0}, {})

    monkeypatch.setattr(beside.Run, "row", of_work)
    monkeypatch.setattr(beside.Run, "program", of_program)
    rows = [Row("cnn_step", 64), Row("cnn_step", program=True)]
    given = argparse.Namespace(steps=1, quick=True, who=None)
    beside.measured(beside.Run(SUITES["models"], "cpu", timing.QUICK, {}), rows, False, given)
    assert works == ["64x3x32x32, 32-64 channels"]
    assert programs == ["cnn_step"]


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
    suite = SUITES["jit"]
    alone, rows = beside.beside_before(suite, list(suite.rows()))
    assert alone.peers == (beside.BEFORE,)
    assert {(r.goal, r.against) for r in rows} == {(Goal(ratio=beside.NOISE), ())}


def test_the_command_measures_beside_another_checkout(tmp_path: Path) -> None:
    (tmp_path / "hologram").mkdir()
    for one in (ROOT / "hologram").iterdir():
        if one.name not in ("benchmark", "__init__.py", "__pycache__"):
            (tmp_path / "hologram" / one.name).symlink_to(one)
    (tmp_path / "hologram" / "__init__.py").write_text((ROOT / "hologram" / "__init__.py").read_text())
    command = [
        sys.executable,
        "bench/peers.py",
        "--suite",
        "cpu",
        "--rows",
        "add",
        "--sizes",
        "1K",
        "--quick",
    ]
    command += ["--before", str(tmp_path), "--json", str(tmp_path / "rows.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert list(row["peers_us"]) == [beside.BEFORE]
    assert row["missing"] == {}


def test_the_command_measures_and_writes_rows(tmp_path: Path) -> None:
    file = tmp_path / "out" / "rows.json"
    command = [
        sys.executable,
        "bench/peers.py",
        "--suite",
        "cpu",
        "--rows",
        "add,gelu",
        "--sizes",
        "1K",
        "--quick",
    ]
    command += ["--who", "hologram,numpy", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    added, smooth = json.loads(file.read_text())
    assert (added["suite"], added["row"], added["size"], added["unit"]) == ("cpu", "add", "1K", "µs")
    assert added["ours_us"] > 0
    assert added["ratio"] == pytest.approx(added["ours_us"] / added["peers_us"]["numpy"], rel=1e-3)
    assert smooth["missing"] == {"numpy": "no such operation"}
    assert "geometric mean of the ratios" in done.stdout


@pytest.mark.parametrize(
    ("name", "everyone"),
    [("eager", {"hologram", "numpy"}), ("replay", {"hologram"}), ("shapes", {"hologram"})],
)
def test_calls_of_the_host_are_right_and_timed(
    name: str, everyone: set[str], backend: str, executor: hg.Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(f"bench.suites.{name}")
    monkeypatch.setattr(module, "find_spec", lambda _: None, raising=False)  # one backend is PyTorch's
    found = list(SUITES[name].own_rows(backend, Pace(turns=1, turn_seconds=0, samples=1)))
    assert len(found) > 5
    assert not any(one.missing for one in found)
    assert {who for one in found for who in one.times} == everyone
