"""Reports: measured, kept where they are interrupted, written, read, shown, and compared."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from hologram.benchmark import machine, start
from hologram.benchmark.matrix import Run, Settings
from hologram.benchmark.piece import Piece
from hologram.benchmark.report import compare, markdown
from hologram.benchmark.report.compare import Verdict
from hologram.benchmark.report.records import (
    TOO_LONG,
    BadReport,
    Key,
    Kind,
    Measurement,
    Report,
    load,
    merged,
)
from hologram.benchmark.report.tables import noise, tables
from hologram.benchmark.report.tables import time as shown_time
from hologram.cli import bench
from hologram.cli.commands import app
from hologram.foundation.errors import BackendUnavailable

runner = CliRunner()
ALL_PIECES = Run.pieces


def small_pieces(run: Run) -> list[Piece]:
    return [piece for piece in ALL_PIECES(run) if piece.title.endswith((" operations, 1K", "peaks"))]


def slower(report: Report, factor: float, row: str = "exp") -> Report:
    """The report with one row on the adapter changed."""
    changed = (
        replace(m, turns=tuple(t * factor for t in m.turns))
        if (m.key.row, m.key.adapter) == (row, "cpu:0")
        else m
        for m in report.measurements
    )
    return replace(report, measurements=tuple(changed))


def steady(report: Report) -> Report:
    """The same times in every turn, so that nothing is noise."""
    same = tuple(replace(m, turns=m.turns[:1] * 5) for m in report.measurements)
    return replace(report, measurements=same, machine=report.machine | {"busy": ""})


def test_a_report_says_what_where_and_how_fast(report: Report) -> None:
    assert not report.unfinished
    assert {"processor", "Python", "hologram", "time"} <= report.machine.keys()
    for row in ("exp", "matmul"):
        for who, where in (("hologram", "cpu:0"), ("NumPy", "host")):
            one = report.by_key[Key(Kind.OPERATION, row, "10K", who, where)]
            assert one.seconds
            assert one.bytes_per_second
    matmul = report.by_key[Key(Kind.OPERATION, "matmul", "10K", "hologram", "cpu:0")]
    assert matmul.flops_per_second == pytest.approx(2 * 96**3 / (matmul.seconds or 1))
    assert 0 < (report.share(matmul) or 0) <= 1
    assert report.copy_peak("cpu:0")


def test_json_keeps_all_of_it(report: Report, tmp_path: Path) -> None:
    report.save(tmp_path / "report.json")
    assert load(tmp_path / "report.json") == report


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing", "no JSON"),
        ("[]", "no format number"),
        ('{"a": 1}', "no format number"),
        ('{"format": 99}', "format 99"),
        ('{"format": 1, "adapters": 3}', "damaged"),
    ],
)
def test_files_that_are_no_reports_are_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(BadReport, match=said):
        load(path)
    for command in (["report", str(path)], ["compare", str(path), str(path)]):
        result = runner.invoke(app, ["bench", *command])
        assert result.exit_code == 2
        assert said.split()[0] in result.output


def test_an_interrupt_keeps_what_is_done() -> None:
    run = Run(machine.adapters("cpu"), Settings(2.0, sizes=("1K",), rows=("exp",)))
    pieces = [piece for piece in run.pieces() if "operations" in piece.title]

    def interrupted(done: object, following: object) -> None:
        raise KeyboardInterrupt

    found = run.run(pieces, interrupted)
    assert [m.key.who for m in found.measurements] == ["NumPy"]
    assert found.interrupted
    assert "1 of 2 pieces are done" in found.unfinished


def test_who_interrupts_waits_for_no_plots(report: Report, tmp_path: Path) -> None:
    def measured(run: Run, pieces: object) -> Report:
        return replace(report, interrupted=True, unfinished="interrupted: 2 of 3 pieces are done")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bench, "measure", measured)
        result = runner.invoke(app, ["bench", "--quick", "--backend", "cpu", "--output", str(tmp_path)])
    assert result.exit_code == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json", "report.md"]
    assert f"hologram bench report {tmp_path / 'report.json'}" in result.stderr
    runner.invoke(app, ["bench", "report", str(tmp_path / "report.json"), "--output", str(tmp_path)])
    assert (tmp_path / "report.html").exists()


def test_time_that_is_over_is_told() -> None:
    run = Run(machine.adapters("cpu"), Settings(1e-3, sizes=("1K",), rows=("exp",), late_seconds=0.0))
    found = run.run(
        [piece for piece in run.pieces() if "operations" in piece.title], lambda done, following: None
    )
    assert "1 of 2 pieces are done" in found.unfinished
    assert not found.interrupted


def test_a_time_that_nobody_asked_for_is_extended_on_a_busy_machine() -> None:
    given: list[float] = []

    def piece(number: int, least: float) -> Piece:
        def run(seconds: float) -> Iterator[Measurement]:
            given.append(seconds)
            time.sleep(0.3)  # three times what is planned for it
            yield Measurement(Key(Kind.LAUNCH, str(number), "1K", "hologram", "cpu:0"), (1.0,))

        return Piece(f"piece {number}", 1.0, run, least)

    pieces = [piece(number, 0.05) for number in range(3)]
    extended = Run((), Settings(0.3, extends=True)).run(pieces, lambda done, following: None)
    assert not extended.unfinished
    assert len(extended.measurements) == 3
    # Three times as slow: as many times what each needs at the least, and half of its share beside that.
    assert given[0] == pytest.approx(0.1, abs=0.02)
    assert all(seconds > 0.19 for seconds in given[1:])
    given.clear()
    asked = Run((), Settings(0.3)).run(pieces, lambda done, following: None)
    assert not asked.unfinished
    assert given[1] < 0.1
    assert given[2] == 0.05


def test_figures_whose_turns_differ_are_marked(report: Report) -> None:
    assert noise(steady(report)) == ""
    first, *others = steady(report).measurements
    noisy = replace(report, measurements=(replace(first, turns=(1.0, 1.1, 1.6)), *others))
    assert noisy.measurements[0].noisy
    assert noise(noisy).startswith(f"1 of {sum(bool(m.turns) for m in others) + 1} figures are noisy")
    assert shown_time(noisy.measurements[0]) == "~1.10 s"
    assert shown_time(replace(first, turns=(1.0, 1.1, 1.4))) == "1.10 s"
    assert "figures are noisy, those with ~" in markdown.page(noisy)


def test_runs_are_merged() -> None:
    key = Key(Kind.LAUNCH, "a", "1K", "hologram", "cpu:0")
    one, other, none = Measurement(key, (1.0,)), Measurement(key, (3.0, 2.0)), Measurement(key, why="no")
    assert merged([one, none, other]) == (Measurement(key, (1.0, 3.0, 2.0)),)
    assert merged([none]) == (none,)


def test_tables_and_markdown_have_every_row(report: Report) -> None:
    shown = list(tables(report))
    for one in shown:
        assert all(len(row) == len(one.columns) for row in one.rows)
    text = markdown.page(report)
    for word in ("| exp |", "| matmul |", "GFLOP/s", report.adapters[0].device):
        assert word in text


def test_commands_write_and_compare(report: Report, tmp_path: Path) -> None:
    calm = steady(report)
    for name, one in (("a", calm), ("b", slower(calm, 2.0)), ("c", slower(calm, 1.01))):
        one.save(tmp_path / f"{name}.json")
    result = runner.invoke(
        app, ["bench", "report", str(tmp_path / "a.json"), "--output", str(tmp_path / "out")]
    )
    assert result.exit_code == 0, result.output
    for name in ("report.json", "report.md", "report.html"):
        assert (tmp_path / "out" / name).stat().st_size > 1000
    for stem in ("roofline-cpu-0", "latency-cpu-0", "speed-cpu-0"):
        assert Image.open(tmp_path / "out" / f"{stem}.png").width > 1000
    page = tmp_path / "page.md"
    a, b, c = (str(tmp_path / f"{name}.json") for name in "abc")
    assert runner.invoke(app, ["bench", "compare", a, b, "--output", str(page)]).exit_code == 1
    assert "slower" in page.read_text()
    assert runner.invoke(app, ["bench", "compare", a, c]).exit_code == 0
    assert runner.invoke(app, ["bench", "compare", a, b, "--threshold", "2"]).exit_code == 0
    assert runner.invoke(app, ["bench", "compare", a]).exit_code == 2
    while_busy = slower(calm, 2.0)
    replace(while_busy, machine=calm.machine | {"busy": "load average 9"}).save(tmp_path / "d.json")
    found = runner.invoke(app, ["bench", "compare", a, str(tmp_path / "d.json")])
    assert found.exit_code == 0
    assert "other work ran after" in found.output
    assert "median of all ratios is" in " ".join(found.output.split())


def test_noise_is_no_regression(report: Report) -> None:
    key = Key(Kind.OPERATION, "exp", "1K", "hologram", "cpu:0")

    def verdict(before: tuple[float, ...], after: tuple[float, ...]) -> Verdict:
        first, second = (
            replace(report, measurements=(Measurement(key, turns),)) for turns in (before, after)
        )
        (found,) = compare.changes(first, second)
        return found.verdict

    assert verdict((1.0, 1.1, 0.9, 1.0, 1.2), (1.5, 1.6, 1.4, 1.5, 1.6)) is Verdict.SLOWER
    assert verdict((1.5, 1.6, 1.4, 1.5, 1.6), (1.0, 1.1, 0.9, 1.0, 1.2)) is Verdict.FASTER
    assert verdict((1.0, 2.0, 0.5, 1.5, 0.9), (1.5, 0.6, 2.4, 1.0, 1.6)) is Verdict.SAME
    assert verdict((1.0,) * 5, (1.05,) * 5) is Verdict.SAME  # below the threshold
    assert verdict((1.0,), (2.0,)) is Verdict.UNKNOWN
    assert verdict((1.0,) * 5, ()) is Verdict.LOST


def test_what_is_wrong_now_is_a_regression(report: Report, tmp_path: Path) -> None:
    report.save(tmp_path / "before.json")
    wrong = tuple(
        replace(m, turns=(), why="wrong result: off") if m.key.row == "exp" else m
        for m in report.measurements
    )
    replace(report, measurements=wrong).save(tmp_path / "after.json")
    found = runner.invoke(
        app, ["bench", "compare", str(tmp_path / "before.json"), str(tmp_path / "after.json")]
    )
    assert found.exit_code == 1
    assert "wrong result: off" in found.output
    late = tuple(replace(m, why=TOO_LONG) if m.why else m for m in wrong)
    replace(report, measurements=late).save(tmp_path / "late.json")  # says nothing of its speed
    found = runner.invoke(
        app,
        ["bench", "compare", str(tmp_path / "before.json"), str(tmp_path / "late.json"), "--threshold", "9"],
    )
    assert found.exit_code == 0


def test_another_machine_is_no_regression(report: Report, tmp_path: Path) -> None:
    calm = steady(report)
    calm.save(tmp_path / "a.json")
    other = slower(calm, 3.0)
    replace(other, machine=other.machine | {"processor": "an abacus"}).save(tmp_path / "b.json")
    result = runner.invoke(app, ["bench", "compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")])
    assert result.exit_code == 0
    assert "an abacus" in " ".join(result.output.split())


def test_adapters_are_chosen_and_refused() -> None:
    (cpu,) = machine.adapters("cpu")
    assert machine.adapters("cpu", cpu.device.lower()) == (cpu,)
    assert machine.adapters("cpu", "0") == (cpu,)
    assert cpu in machine.adapters()
    for backend, device in (("cpu", "7"), (None, "no such thing"), ("abacus", None)):
        with pytest.raises(BackendUnavailable, match=r"cpu"):
            machine.adapters(backend, device)


def test_first_results_of_new_processes() -> None:
    cold, warm = start.first_results(machine.adapters("cpu")[0], 3.0)
    assert (cold.why, warm.why) == ("", "")
    assert min(cold.turns) > min(warm.turns) > 0  # what else runs here makes single ones slow


def test_the_command_prints_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "pieces", small_pieces)
    command = ["bench", "--backend", "cpu", "--seconds", "2", "--output", str(tmp_path), "--json"]
    result = runner.invoke(app, command)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["adapters"][0]["backend"] == "cpu"
    kinds = {m.key.kind for m in load(tmp_path / "report.json").measurements}
    assert {Kind.PEAK, Kind.OPERATION} <= kinds
