"""Processes that measure: PyTorch's part of the matrix on the host and on an adapter, and what goes wrong in one."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from hologram.benchmark.contenders import Who
from hologram.benchmark.operations import KINDS, in_process
from hologram.benchmark.process import Process, not_installed
from hologram.benchmark.report.records import HOST
from hologram.benchmark.timing import NOT_REACHED, QUICK, NoTime, Pace

SMALL = {"small_mlp": 8}
ON_HOST = (("PyTorch", Who("torch", HOST)),)
ON_ADAPTER = tuple(
    (f"hologram_torch {way}", Who(f"hologram {way}", "cpu:0")) for way in ("eager", "compiled")
)


@pytest.mark.slow
@pytest.mark.parametrize(("everyone", "adapter"), [(ON_HOST, HOST), (ON_ADAPTER, "cpu:0")])
def test_models_are_measured(
    everyone: tuple[tuple[str, Who], ...], adapter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = list(in_process(everyone, SMALL, 90, share=0.05))
    assert [(m.key.who, m.key.kind, m.why) for m in found] == [
        (name, kind, "") for name, _ in everyone for kind in KINDS
    ]
    assert all(m.seconds and m.key.adapter == adapter for m in found)


def test_what_takes_too_long_is_stopped() -> None:
    assert [m.why for m in in_process(ON_HOST, SMALL, 0.2)] == [NOT_REACHED] * 2


def test_what_fails_says_why() -> None:
    everyone = (("nobody", Who("nobody", HOST, "hologram.no_such_module")),)
    found = [m.why for m in in_process(everyone, SMALL, 60)]
    assert len(found) == 2
    assert all("hologram is not installed" in why or "no_such_module" in why for why in found)


def test_a_process_prepares_takes_turns_and_names_what_is_absent() -> None:
    process, numpy = Process(), Who("numpy", "cpu")
    try:
        assert process.ask("open", numpy) == "cpu"
        with pytest.raises(NoTime, match="no such operation"):
            process.ask("prepare", numpy, "gelu", 1024)
        assert process.ask("prepare", numpy, "add", 1024)
        assert process.ask("turn", Pace(turns=1, turn_seconds=0, samples=2)) > 0
        with pytest.raises(NoTime, match="KeyError"):
            process.ask("prepare", numpy, "no such work", 1024)
        assert process.ask("prepare", numpy, "sum", 1024)
        with pytest.raises(NoTime, match="does not count"):
            process.ask("dispatches")
        assert process.ask("grown", numpy, "mlp_step", 8) > 0
        process.process.kill()
        process.process.join()
        with pytest.raises(NoTime, match=f"ended with status -{signal.SIGKILL.value}"):
            process.ask("turn", QUICK)
    finally:
        process.close()


def test_a_process_imports_the_hologram_of_the_checkout_it_is_told(tmp_path: Path) -> None:
    package = tmp_path / "hologram"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('the other checkout')\n")
    process = Process(str(tmp_path))
    try:
        with pytest.raises(NoTime, match="RuntimeError: the other checkout"):
            process.ask("open", Who("hologram", "cpu"))
    finally:
        process.close()


def test_a_process_computes_with_the_hologram_of_the_checkout_it_is_told(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    (tmp_path / "hologram").mkdir()
    for one in (root / "hologram").iterdir():  # another checkout that has no benchmarks
        if one.name not in ("benchmark", "__init__.py", "__pycache__"):
            (tmp_path / "hologram" / one.name).symlink_to(one)
    text = (root / "hologram" / "__init__.py").read_text()
    (tmp_path / "hologram" / "__init__.py").write_text(text + "\nops = None\n")
    process = Process(str(tmp_path))
    try:
        assert process.ask("open", Who("hologram", "cpu"))
        with pytest.raises(NoTime, match="'NoneType' object has no attribute 'add'"):
            process.ask("prepare", Who("hologram", "cpu"), "add", 1024)
    finally:
        process.close()


def crashing(pipe: Connection, checkout: str) -> None:
    """A process that ends when it is asked."""
    pipe.recv()
    sys.stderr.write("so much to say\n" * 20_000)
    os.abort()


def without_a_package(pipe: Connection, checkout: str) -> None:
    """A process in which something is missing."""
    from hologram.benchmark import process
    from hologram.benchmark.desk import Desk

    Desk.open = lambda self, who: __import__("no_such_package.inside")  # type: ignore[method-assign]
    process.serve(pipe, checkout)


def test_what_crashes_says_so() -> None:
    process = Process(target=crashing)
    with pytest.raises(NoTime, match="its process ended with status -6"):
        process.ask("open", Who("numpy", HOST), seconds=60)
    process.close()


def test_what_is_not_installed_is_named_with_its_remedy() -> None:
    process = Process(target=without_a_package)
    with pytest.raises(NoTime, match="no_such_package is not installed: pip install no_such_package"):
        process.ask("open", Who("torch", HOST))
    process.close()
    assert (
        not_installed("torch")
        == "torch is not installed: pip install 'hologram[torch]' (in a checkout '.[torch]')"
    )
