"""The commands: what they print for people and machines, and their exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import hologram as hg
from hologram.cli import display, doctor, tune
from hologram.cli.commands import app
from hologram.foundation import dtypes
from hologram.foundation.conduct import CONDUCT
from hologram.machine.choices import Problem
from hologram.machine.device import DeviceInfo
from hologram.tuning import tuner

runner = CliRunner()


def invoke(*arguments: str, status: int = 0) -> str:
    result = runner.invoke(app, list(arguments))
    assert result.exit_code == status, f"{result.output}\n{result.exception!r}"
    return result.stdout


def test_info_names_versions_and_backends() -> None:
    text = invoke("info")
    assert hg.__version__ in text
    assert np.__version__ in text
    assert "cpu:0" in text


def test_info_as_json_lists_every_backend() -> None:
    facts = json.loads(invoke("info", "--json"))
    assert [b["name"] for b in facts["backends"]] == [probe.backend for probe in hg.backends()]
    for backend in facts["backends"]:
        assert backend["available"] == bool(backend["devices"])
        assert backend["available"] or backend["reason"]


def test_info_loads_no_other_command_and_walks_the_cache_once() -> None:
    code = (
        "import sys\nfrom hologram.foundation.store import Store\nusage, walks = Store.usage, []\n"
        "Store.usage = lambda self: (walks.append(1), usage(self))[1]\n"
        "from hologram.cli import commands\nsys.argv = ['hologram', 'info']\n"
        "try: commands.run()\nexcept SystemExit: pass\n"
        "print(len(walks), *sorted(sys.modules))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    walks, *loaded = said.stdout.splitlines()[-1].split()
    assert walks == "1"
    assert "hologram.cli.info" in loaded
    other = ("cli.bench", "cli.demo", "benchmark", "llm", "demo", "compiler.fusion", "opset.arithmetic")
    assert not [name for name in loaded if name.startswith(tuple(f"hologram.{part}" for part in other))]


def test_a_name_that_is_no_command_is_told_with_one_that_is() -> None:
    result = runner.invoke(app, ["nfo"])
    assert result.exit_code == 2
    assert "No such command 'nfo'" in result.output
    listed = invoke("--help")
    assert all(name in listed for name in ("info", "doctor", "chat", "explain", "kernels", "demo", "bench"))


def test_the_version_is_told() -> None:
    assert invoke("--version") == f"hologram {hg.__version__}\n"


@pytest.mark.parametrize("command", ["info", "doctor"])
def test_findings_are_told_once_and_in_lines_that_read(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = invoke(command).splitlines()
    text = " ".join(" ".join(lines).split())
    for probe in hg.backends():
        if not probe.available:
            assert text.count(probe.reason) == 1
            assert text.count(probe.remedy) == 1
    # A ribbon is a cell of a word or two on each of many lines.
    longest = max((line for line in lines if "unavailable" in line), key=len, default=" " * 60)
    assert len(longest.rstrip()) >= 50


def test_what_the_environment_says_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_MATMUL_PRECISION", "hi")
    (found,) = json.loads(invoke("info", "--json"))["configuration"]
    assert found == "HOLOGRAM_MATMUL_PRECISION must be highest or high, got 'hi'"
    assert json.loads(invoke("doctor", "--json", status=1))["configuration"] == [found]


def test_doctor_finds_every_available_device_working() -> None:
    facts = json.loads(invoke("doctor", "--json"))
    devices = [f"{b['name']}:{d['index']}" for b in facts["backends"] for d in b["devices"]]
    assert facts["healthy"]
    assert [c["device"] for c in facts["checks"]] == devices
    assert all(0 <= c["error"] <= doctor.TOLERANCE for c in facts["checks"])


def test_where_kernels_persist_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOLOGRAM_CACHE_DIR", str(tmp_path / "cache"))
    assert json.loads(invoke("info", "--json"))["cache"]["entries"] == 0
    after = json.loads(invoke("doctor", "--json"))["cache"]
    assert after["directory"] == str(tmp_path / "cache")
    assert after["nbytes"] == sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) > 0
    assert f"{after['entries']} entries" in " ".join(invoke("info").split())
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOLOGRAM_CACHE_DIR", str(tmp_path / "file"))
    assert "are not kept" in json.loads(invoke("info", "--json"))["cache"]["problem"]
    for command in ("info", "doctor"):
        assert invoke(command).count("are not kept") == 1
    monkeypatch.setenv("HOLOGRAM_CACHE", "0")
    assert "switched off" in invoke("info")


def test_doctor_fails_when_a_device_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(device: DeviceInfo) -> doctor.Check:
        return doctor.Check(device.backend, device.name, problem="DeviceLost: gone")

    monkeypatch.setattr(doctor, "check", refuse)
    assert "DeviceLost: gone" in invoke("doctor", status=1)


def test_doctor_says_what_a_drivers_shortfalls_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(device: DeviceInfo) -> doctor.Check:
        return doctor.Check(device.backend, device.name, shortfalls=tuple(CONDUCT))

    monkeypatch.setattr(doctor, "check", found)
    monkeypatch.setattr(display.output, "width", 500)
    text = invoke("doctor")
    for word, conduct in CONDUCT.items():
        assert f"{word}: {conduct.otherwise}" in text
        assert conduct.otherwise.startswith("the driver")
        assert any(
            advice in conduct.otherwise
            for advice in ("nothing to do", "opens an", "use an", "newer", "cannot")
        )
    assert "it is not so" not in text


def test_doctor_notices_wrong_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "softmax", lambda x: np.full_like(x, 1 / x.shape[1]))
    (cpu,) = (device for probe in hg.backends() for device in probe.devices if device.backend == "cpu")
    assert "wrong" in doctor.check(cpu).problem


def test_demo(executor: hg.Executor, tmp_path: Path) -> None:
    text = invoke("demo", "--backend", executor.backend, "--output", str(tmp_path), "--json")
    facts = json.loads(text)
    assert facts["problems"] == []
    assert facts["accuracy"] >= 0.95
    assert facts["why"].startswith(executor.backend)
    picture = np.asarray(Image.open(facts["picture"]))
    assert picture.std() > 30  # not a blank sheet


def test_unknown_backend_is_a_message_not_a_traceback() -> None:
    command = [sys.executable, "-m", "hologram", "demo", "--backend", "abacus"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "BackendUnavailable" in result.stderr
    assert "abacus" in result.stderr
    assert "Traceback" not in result.stderr


def test_what_cannot_be_written_is_a_message_not_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [
        sys.executable,
        "-m",
        "hologram",
        "demo",
        "--backend",
        "cpu",
        "--output",
        str(tmp_path / "file"),
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 1
    assert str(tmp_path / "file") in result.stderr
    assert "Traceback" not in result.stderr


def test_bench_tunes_what_has_a_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_CACHE_DIR", str(tmp_path))
    found = json.loads(invoke("bench", "--tune", "--backend", "cpu", "--json"))
    assert found["backend"] == "cpu"
    assert {measured["kernel"] for measured in found["measured"]} == {"conv2d"}  # BLAS cuts products itself
    assert "conv2d" in invoke("bench", "--tune", "--backend", "cpu")


def test_bench_shows_what_was_measured(executor: hg.Executor, capsys: pytest.CaptureFixture[str]) -> None:
    problem = Problem("matmul", dtypes.f32, (2, 16, 32, 16), (True, True))
    pace = tuner.Pace(rounds=2, turn_seconds=1e-5)
    found = tune.Tuning(executor.backend, "a device", (tuner.measure(executor, problem, pace),))
    (one,) = tune.as_dict(found)["measured"]
    assert json.loads(json.dumps(one)) == one
    assert one["sizes"] == [2, 16, 32, 16]
    assert one["winner_s"] <= one["default_s"]
    tune.show(found)
    assert "2 of 16 x 32" in " ".join(capsys.readouterr().out.split())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends Ctrl-C to a group of processes")
@pytest.mark.parametrize(
    "moment",
    [
        "class Signal(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'hologram.cli.info': interrupt()\n"
        "sys.meta_path.insert(0, Signal())",
        "from hologram.runtime import selector; selector.choose = interrupt",
        "from hologram.runtime import selector\n"
        "class Dying:\n"
        "    def __del__(self): interrupt()\n"
        "selector.choose = lambda *_: [Dying().__class__, time.sleep(20)]",
        "atexit.register(interrupt)",
    ],
    ids=["while it loads", "while it runs", "in a finaliser", "at its end"],
)
def test_an_interrupt_shows_no_traceback(moment: str) -> None:
    code = (
        "import atexit, importlib.abc, os, signal, sys, time\nfrom hologram.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # whoever began the tests may ignore it
        "def interrupt(*_): os.kill(os.getpid(), signal.SIGINT)\n"
        f"{moment}\nsys.argv = ['hologram', 'info']\nmain()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr.strip()) == (130, "")
