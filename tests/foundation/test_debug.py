"""HOLOGRAM_DEBUG: each rung prints what it says, to stderr, and no more."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from hologram.foundation import debug
from hologram.foundation.debug import Rung

SIZE = 1000
TITLE = re.compile(r"^hologram (\w+): (.*)$")
# An exponential twice, a matrix product, one written by hand, and a program whose source is printed for comparison.
WORK = f"""
import sys
import hologram as hg
from tests.compiler.recognition.test_recognise import GEMM
from tests.golden.programs import PROGRAMS
with hg.Executor(backend=sys.argv[1]) as executor:
    x = executor.ones(({SIZE},))
    hg.exp(x)
    hg.exp(x)
    square = executor.ones((32, 32))
    hg.matmul(square, square)
    a, b, c = (executor.ones(shape) for shape in ((64, 32), (32, 48), (64, 48)))
    executor.run(GEMM, {{"a": a, "b": b, "c": c}}, lanes=(64, 48), m=64, k=32)
    program = PROGRAMS["silu_f16"]
    half = executor.ones(({SIZE},), "f16")
    executor.run(program, {{"a": half, "out": executor.empty(({SIZE},), "f16")}}, lanes={SIZE})
    print(executor.device.source(program, ({SIZE},)))
"""


class Output:
    """What one process printed: entries as (rung, title, body), and its stdout."""

    def __init__(self, result: subprocess.CompletedProcess[str]) -> None:
        self.text = result.stderr
        self.stdout = result.stdout
        self.entries: list[tuple[str, str, str]] = []
        for line in result.stderr.splitlines():
            found = TITLE.match(line)
            if found:
                self.entries.append((*found.groups(), ""))  # type: ignore[arg-type]
            else:
                rung, title, body = self.entries[-1]
                assert line == "" or line.startswith("    "), line
                self.entries[-1] = rung, title, f"{body}{line}\n"

    def of(self, rung: Rung) -> list[tuple[str, str]]:
        return [(title, textwrap.dedent(body)) for r, title, body in self.entries if r == rung.name.lower()]


@pytest.fixture(scope="session")
def outputs() -> dict[tuple[str, int], Output]:
    return {}


@pytest.fixture
def output(executor: Any, outputs: dict[tuple[str, int], Output]) -> Any:
    """What the work prints on a rung of the ladder; each runs once."""

    def output(level: int) -> Output:
        key = executor.backend, level
        if key not in outputs:
            outputs[key] = Output(
                subprocess.run(
                    [sys.executable, "-c", WORK, executor.backend],
                    env={**os.environ, "HOLOGRAM_DEBUG": str(level)},
                    capture_output=True,
                    text=True,
                    check=True,
                    timeout=120,
                )
            )
        return outputs[key]

    return output


@pytest.mark.parametrize("level", range(6))
def test_each_rung_prints_itself_and_those_below(output: Any, level: int) -> None:
    assert {rung for rung, _, _ in output(level).entries} == {r.name.lower() for r in Rung if r <= level}


def test_nothing_is_printed_unless_asked(output: Any) -> None:
    assert output(0).text == ""


def test_devices_with_the_reasons(output: Any, executor: Any) -> None:
    ((title, body),) = output(1).of(Rung.DEVICE)
    assert title.startswith(f"{executor.backend}: {executor.device.info.name}")
    assert f"{executor.backend} was asked for" in body


def test_launches_with_grid_and_time(output: Any) -> None:
    titles = [title for title, _ in output(2).of(Rung.LAUNCH)]
    exps = [t for t in titles if t.startswith("atlas_exp_f32,")]
    assert len(exps) == 2
    for title in exps:
        assert re.fullmatch(
            rf"atlas_exp_f32, grid {SIZE}, (\d+ workgroups, )?7.8 KiB bound, [\d.]+ (ns|µs|ms)", title
        )
    assert any(re.match(r"atlas_matmul\w*, grid \d+ x \d+ x 1,", t) for t in titles)


def test_programs_once_each(output: Any) -> None:
    entries = output(3).of(Rung.PROGRAM)
    assert len(set(entries)) == len(entries)
    programs = dict(entries)
    (exp,) = (body for title, body in programs.items() if title.startswith("atlas_exp_f32 "))
    assert "= exp %1 : f32\n" in exp
    (tile,) = (body for title, body in programs.items() if "hand-written matmul" in title)
    assert "buffers a: f32 (read), b: f32 (read), out: f32 (write)" in tile


def test_recognised_programs_are_told(output: Any) -> None:
    (title,) = (title for title, _ in output(2).of(Rung.LAUNCH) if title.startswith("my_gemm"))
    assert re.match(r"my_gemm: matrix product 64 x 32 x 48 of f32 .* runs as matmul", title)


def test_source_is_what_the_device_gives(output: Any) -> None:
    def declared_alike(text: str) -> str:
        """WGSL whose operands may all be written: so they are where two of them lie in one GPU buffer."""
        return text.strip().replace("<storage, read>", "<storage, read_write>")

    ((_, body),) = (e for e in output(4).of(Rung.SOURCE) if e[0].startswith("atlas_silu_f16"))
    assert declared_alike(output(4).stdout) == declared_alike(body)


def test_rewrites_with_the_sizes(output: Any) -> None:
    title = next(t for t, _ in output(5).of(Rung.REWRITE) if t.startswith("atlas_exp_f32: expand functions"))
    before, after = map(int, re.findall(r"(\d+) -> (\d+) instructions", title)[0])
    assert before < after


def test_canonical_form_is_a_rewrite(output: Any) -> None:
    assert any(": simplify and order, " in title for title, _ in output(5).of(Rung.REWRITE))


def test_an_entry_is_a_line_and_an_indented_body(capsys: pytest.CaptureFixture[str]) -> None:
    debug.show(Rung.SOURCE, "a in b", "one\n\n  two")
    assert capsys.readouterr() == ("", "hologram source: a in b\n    one\n\n      two\n")


def test_the_rungs_are_those_of_the_knob() -> None:
    assert [int(r) for r in Rung] == [1, 2, 3, 4, 5]
