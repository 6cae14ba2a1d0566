"""Where the suite's time goes: `pytest --profile FILE` writes a line for each test, `python -m tests.harness.profile
FILE` adds them up by kind and by file.

Seconds are processor time, so that what else runs on the machine changes little; `wall` is time by the clock. Of a
test's seconds `llvm` went into the CPU backend's compiler, `mesa` into pipelines of WebGPU's driver, and `children`
into processes that it started (clang among them).
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

KINDS = ("wall", "cpu", "llvm", "mesa", "children")


class Profile:
    """A plugin that notes what each test took."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spent: defaultdict[str, float] = defaultdict(float)

    def clocks(self) -> dict[str, float]:
        """What has been spent in this process up to now."""
        times = os.times()
        children = times.children_user + times.children_system
        return {**self.spent, "wall": time.perf_counter(), "cpu": time.process_time(), "children": children}

    def watch(self, owner: type, name: str, kind: str) -> None:
        """Counts a compiler's time; its door is a method of a class."""
        door: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(door)
        def counted(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return door(*args, **kwargs)
            finally:
                self.spent[kind] += time.process_time() - start
                self.spent[f"{kind} calls"] += 1

        setattr(owner, name, counted)

    def write(self, name: str, spent: dict[str, float]) -> None:
        """Adds a line to the file; workers share it, and each line is written at once."""
        line = json.dumps({"test": name, **{k: round(v, 4) for k, v in spent.items() if v}})
        with self.path.open("a") as file:
            file.write(line + "\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Around a test with its fixtures."""
        before = self.clocks()
        result = yield
        self.write(item.nodeid, {k: v - before.get(k, 0.0) for k, v in self.clocks().items()})
        return result

    def pytest_collection_finish(self) -> None:
        """What it took to import and collect, in this process."""
        self.write("collecting", {"cpu": time.process_time()})


def install(config: pytest.Config, path: str) -> None:
    """Notes each test of this process in a file, from here on."""
    from hologram.backends.webgpu.pipeline import Pipelines
    from hologram.compiled.machine_code.engine import Engine

    if not hasattr(config, "workerinput"):
        Path(path).unlink(missing_ok=True)
    profile = Profile(Path(path))
    profile.watch(Engine, "compile", "llvm")
    profile.watch(Pipelines, "compile", "mesa")
    config.pluginmanager.register(profile, "profile")


def added_up(path: Path) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """The sums of a file: of all, and by test file."""
    whole: dict[str, float] = defaultdict(float)
    files: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for line in path.read_text().splitlines():
        spent: dict[str, Any] = json.loads(line)
        name = spent.pop("test")
        for kind, value in {**spent, "tests": 1}.items():
            whole[kind] += value
            files[name.partition("::")[0]][kind] += value
    return whole, files


def main(path: str, rows: int = 40) -> None:
    """Prints the table."""
    whole, files = added_up(Path(path))
    longest = sorted(files.items(), key=lambda entry: -entry[1]["cpu"] - entry[1]["children"])
    print("| file | tests |", " | ".join(KINDS), "|")
    print("| :-- |", " --: |" * (len(KINDS) + 1))
    for name, spent in [("all", whole), *longest[:rows]]:
        print(f"| {name} | {spent['tests']:.0f} |", " | ".join(f"{spent[k]:.1f}" for k in KINDS), "|")


if __name__ == "__main__":
    main(sys.argv[1])
