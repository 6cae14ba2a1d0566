"""Whole programs in `hologram bench`: pieces of a run, and what a report says of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hologram.benchmark import whole_programs
from hologram.benchmark.contenders import Who
from hologram.benchmark.process import not_installed
from hologram.benchmark.programs.steps import Trial
from hologram.benchmark.programs.table import PROGRAMS
from hologram.benchmark.report import markdown
from hologram.benchmark.report.records import (
    HOST,
    STEP,
    BadReport,
    Course,
    Key,
    Kind,
    Measurement,
    Report,
    as_dict,
    load,
    measurement,
    merged,
)
from hologram.benchmark.report.tables import programs
from hologram.cli.commands import app

runner = CliRunner()


def one(row: str, who: str, where: str, seconds: float = 0.0, why: str = "", size: str = STEP) -> Measurement:
    """A measurement with a course where it has a time."""
    ours = Who(who, where).ours
    course = Course(
        40, 0.5, seconds, 1200 if ours else None, 4e-6 if ours else None, {"1": 300.0, "10": 301.2}
    )
    key = Key(Kind.PROGRAM, row, size, who, where)
    return Measurement(key, (seconds,) * 5 if seconds else (), why=why, course=course if seconds else None)


GIVEN = (
    one("llama_static", "hologram eager", "cpu:0", 0.02),
    one("llama_static", "torch", HOST, 0.01),
    one("t5_generate", "hologram eager", "cpu:0", 0.02, size="step / 16"),
    one("t5_generate", "torch", HOST, why=not_installed("transformers"), size="step / 16"),
)


def test_a_table_has_everyone_beside_the_peer() -> None:
    table = programs(list(GIVEN))
    assert table.columns[-1] == "MB after 1, 10"
    assert table.rows == (
        ("llama_static", "hologram eager, cpu:0", "20.0 ms", "2x", "500 ms", "1,200", "4.00 µs", "300, 301"),
        ("llama_static", "torch", "10.0 ms", "1x", "500 ms", "–", "–", "300, 301"),
        ("t5_generate", "hologram eager, cpu:0", "20.0 ms", "–", "500 ms", "1,200", "4.00 µs", "300, 301"),
    )
    parts, alone, missing = table.notes
    assert parts.startswith("t5_generate: of a step / 16")
    assert alone.startswith("t5_generate: no peer has a result")
    assert missing.startswith("torch: t5_generate (step / 16): transformers is not installed: pip install")


def test_reports_keep_how_programs_went(report: Report, tmp_path: Path) -> None:
    kept = replace(report, measurements=(*report.measurements, *GIVEN))
    kept.save(tmp_path / "report.json")
    assert load(tmp_path / "report.json") == kept
    assert "| llama_static | torch | 10.0 ms | 1x |" in markdown.page(kept)
    assert merged([GIVEN[0], GIVEN[0]])[0].course == GIVEN[0].course
    for wrong in ({"launches": "many"}, {"resident_mb": {"1": "300"}}, {"resident_mb": 3}):
        damaged = as_dict(GIVEN[0])
        damaged["course"] |= wrong
        with pytest.raises(TypeError, match=next(iter(wrong))):
            measurement(damaged)
    text = (tmp_path / "report.json").read_text().replace('"first_seconds": 0.5', '"first_seconds": null')
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(BadReport, match="first_seconds"):
        load(tmp_path / "report.json")


def test_everyone_who_can_takes_part() -> None:
    adapters = ("cpu:0", "webgpu:0")

    def everyone(name: str) -> list[Who]:
        made = PROGRAMS[name]
        who = (whole_programs.OURS[made.jitted], *whole_programs.PEERS[made.jitted])
        return whole_programs.contenders(made, adapters, who)

    assert [(c.name, c.where) for c in everyone("llama_static")] == [
        ("hologram eager", "cpu:0"),
        ("hologram eager", "webgpu:0"),
        ("torch", HOST),
    ]
    assert [(c.name, c.where) for c in everyone("kalman")] == [
        ("hologram jit", "cpu:0"),
        ("hologram jit", "webgpu:0"),
        ("jax", HOST),
        ("numpy", HOST),
    ]


def test_time_that_is_over_ends_the_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    kalman = PROGRAMS["kalman"]
    numpy = Who("numpy", HOST)
    found = whole_programs.measure(kalman, (numpy,), 1000, 1e-9, 0.0)[numpy]
    assert isinstance(found, Trial)
    assert [len(turn) for turn in found.turns] == [1, 1]
    assert found.counted == found.turns[1]


def test_the_command_measures_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(whole_programs.PEERS, True, ("numpy",))
    command = ["bench", "programs", "kalman", "--steps", "2", "--backend", "cpu", "--output", str(tmp_path)]
    result = runner.invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["measurements"][0]["course"]["steps"] == 2
    kept = load(tmp_path / "report.json")
    ours, theirs = kept.of(Kind.PROGRAM)
    assert (ours.key.who, ours.key.adapter, theirs.key.who) == ("hologram jit", "cpu:0", "numpy")
    assert ours.seconds
    assert theirs.seconds
    assert ours.course
    assert ours.course.launches
    assert (tmp_path / "report.html").exists()
    again = runner.invoke(app, ["bench", "report", str(tmp_path / "report.json"), "--output", str(tmp_path)])
    assert "kalman" in again.output


def test_programs_are_chosen_and_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = runner.invoke(app, ["bench", "programs", "kalmann"])
    assert result.exit_code == 2
    assert "kalmann" in result.output
    asked: list[tuple[Sequence[str], int]] = []

    def nothing(names: Sequence[str], adapters: Sequence[str], steps: int) -> list:
        asked.append((names, steps))
        raise FileNotFoundError

    monkeypatch.setattr(whole_programs, "pieces", nothing)
    for options in ((), ("--quick",), ("--quick", "--steps", "7", "kalman")):
        runner.invoke(app, ["bench", "programs", "--backend", "cpu", *options])
    assert asked == [
        (tuple(PROGRAMS), whole_programs.STEPS),
        (whole_programs.QUICK, whole_programs.QUICK_STEPS),
        (["kalman"], 7),
    ]
    assert set(whole_programs.QUICK) <= PROGRAMS.keys()
