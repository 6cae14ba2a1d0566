"""Whole programs: declared once, right wherever they run, and measured with other inputs at each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from bench.suites import SUITES
from hologram.benchmark import beside, whole_programs
from hologram.benchmark.contenders import MODULES, Who
from hologram.benchmark.contenders.arrays import ArrayLibrary
from hologram.benchmark.contenders.ours import functions
from hologram.benchmark.contenders.with_numpy import NumPy
from hologram.benchmark.programs import jitted
from hologram.benchmark.programs.declared import Program, program
from hologram.benchmark.programs.steps import CHECKED, WARM, Launches, Steps, Trial
from hologram.benchmark.programs.table import PROGRAMS
from hologram.benchmark.report.records import HOST
from hologram.benchmark.report.tables import programs
from hologram.benchmark.whole_programs import shares


def doubled(place: Any) -> Callable[[Any], Any]:
    """Twice a vector."""
    run = place.compiled(lambda x: x + x)
    return lambda x: run(place.tensor(x))


SMALL = program(limit=1.0, inputs=lambda random: (random.random(4, np.float32),), jitted=True)(doubled)


here: Callable[[hg.Executor], ArrayLibrary] = functions


def test_every_program_says_what_it_is() -> None:
    assert len(PROGRAMS) > 20
    for name, one in PROGRAMS.items():
        assert one.name == name
        assert one.about
        assert one.limit >= 1
        first, again, other = one.given(0), one.given(0), one.given(1)
        assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
        assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True)), name


def test_steps_have_inputs_of_their_own_and_count_their_launches(executor: hg.Executor) -> None:
    steps = Steps(SMALL, here(executor))
    assert len(steps.take(10)) == 10
    assert len(steps.results) == CHECKED
    for number, found in enumerate(steps.results):
        np.testing.assert_array_equal(found, 2 * SMALL.given(number)[0])
    launches = steps.launches()
    assert launches is not None
    assert launches.count == 1
    assert steps.number == 11
    assert all(megabytes > 1 for megabytes in steps.resident.values())
    assert list(steps.resident) in ([], [1, 10])
    assert len(steps.take(10, seconds=0)) == 0


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Says how many letters the words have that edits are counted between."""
    return lambda count: monkeypatch.setattr(jitted, "LETTERS", count)


def test_loops_compute_what_they_do_in_numpy(executor: hg.Executor, letters: Callable[[int], None]) -> None:
    letters(9)
    for name in ("edit_distance", "edit_rows", "kalman", "lstm_scan", "kalman_scan", "newton_while"):
        one = PROGRAMS[name]
        ours, theirs = Steps(one, here(executor)), Steps(one, NumPy())
        ours.take(2)
        theirs.take(2)
        for a, b in zip(ours.results, theirs.results, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["edit_distance", "edit_rows"])
def test_edits_are_counted(name: str, letters: Callable[[int], None]) -> None:
    letters(6)
    step = PROGRAMS[name].build(NumPy())
    words = [np.frombuffer(word, np.uint8).astype(np.int32) for word in (b"kitten", b"sittin", b"ittens")]
    assert [int(step(words[0], other)) for other in words] == [0, 2, 2]


def test_the_optimiser_learns(executor: hg.Executor) -> None:
    step = PROGRAMS["optimiser_loop"].build(here(executor))
    x, y = PROGRAMS["optimiser_loop"].given(0)
    losses = [float(step(x, y).to_numpy()) for _ in range(30)]
    assert losses[-1] < losses[0] - 0.01


TRAINED = (
    "lstm_step", "gru_step", "cnn_step", "gnn_step", "unet_step",
    "gpt_step", "adamw_step", "adamw_fused_step",
)  # fmt: skip


@pytest.mark.parametrize("name", TRAINED)
def test_trained_programs_lose_as_much_as_on_the_cpu(name: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("hologram_torch")
    from hologram.benchmark.contenders.with_torch import Torch

    found = []
    for device in ("cpu", "hologram"):
        steps = Steps(PROGRAMS[name], Torch(device))
        steps.take(2)
        found.append(steps.results)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3)


def test_turns_share_the_steps() -> None:
    assert shares(100) == [5, 19, 19, 19, 19, 19]
    assert shares(7) == [5, 1, 1]
    assert shares(3) == [3]


def a_run(value: float, seconds: float, launches: Launches | None = None) -> Trial:
    steps = [[1.0, 0.5, 0.5, 0.5], [0.5, seconds], *[[seconds]] * 4]
    return Trial(steps, [np.array([value])], {1: 50.0}, launches)


def test_steps_that_compile_do_not_count() -> None:
    found = a_run(1.0, 2e-3)
    assert found.counted == [2e-3] * 5
    assert Trial([[3.0, 1.0]], [], {}, None).counted == [1.0]  # where there are no others
    assert a_run(1.0, 2e-3, Launches(10, 3e-3)).host_seconds is None  # profiled, it took longer
    assert a_run(1.0, 2e-3, Launches(10, 3e-3, 1e-3)).host_seconds == 1e-4  # beside the thread that works


def test_the_host_is_timed_where_kernels_run_beside_it(letters: Callable[[int], None]) -> None:
    letters(9)
    for backend in ("cpu", "webgpu"):
        with hg.Executor(backend) as ex:
            steps = Steps(PROGRAMS["edit_distance"], here(ex))
            steps.take(WARM + 2)
            found = steps.launches()
            assert found is not None
            assert found.count > 0
            assert (found.host_seconds is None) == (backend == "cpu")
            assert found.host_seconds is None or 0 < found.host_seconds < 5


def test_who_computes_something_else_has_no_time() -> None:
    answers = {
        Who("hologram eager", "cpu"): a_run(1.0, 2e-3, Launches(10, 1e-3)),
        Who("hologram compiled", "cpu"): a_run(1.5, 1e-3),
        Who("torch", HOST): a_run(1.0, 1e-3),
        Who("inductor", HOST): "torch is not installed",
    }
    two = Program("two", "two", doubled, lambda r: (), 3.0, 2)
    row = beside.of_program(two, "cpu", whole_programs.measurements(two, answers))
    assert (row.ours_us, row.peers_us, row.ratio, row.met) == (1000.0, {"torch": 500.0}, 2.0, True)
    assert "off by" in row.missing["hologram compiled"]
    assert "not installed" in row.missing["inductor"]
    course = row.record()["courses"]["hologram eager"]
    assert (course["launches"], course["host_seconds"], course["first_seconds"]) == (5, 1e-4, 1.0)
    assert len(programs([m for m in row.measured if m.seconds]).rows) == 2


def test_a_program_is_measured_in_processes_of_its_own() -> None:
    kalman = PROGRAMS["kalman"]
    everyone = whole_programs.contenders(kalman, ("cpu:0",), ("hologram jit", "numpy"))
    found = whole_programs.measurements(kalman, whole_programs.measure(kalman, everyone, 8, 5.0))
    assert [(m.key.who, m.key.adapter, m.why) for m in found] == [
        ("hologram jit", "cpu:0", ""),
        ("numpy", HOST, ""),
    ]
    row = beside.of_program(kalman, "cpu", found)
    assert row.missing == {}
    courses = row.record()["courses"]
    assert courses["hologram jit"]["launches"] > 0
    assert courses["numpy"]["steps"] == 8


def test_a_place_that_cannot_compute_a_program_says_why() -> None:
    numpy = Who("numpy", HOST)
    answers = whole_programs.measure(PROGRAMS["optimiser_loop"], (numpy,), 1, 5.0)
    assert answers[numpy] == "NotImplementedError: it has no derivatives"


def test_nobody_of_another_name_is_asked() -> None:
    suite = SUITES["programs"]
    with pytest.raises(SystemExit, match="nobody is called tourch"):
        beside.by_those(suite, "torch,tourch", list(MODULES))
    assert {suite.ours, *suite.peers} <= set(MODULES)
