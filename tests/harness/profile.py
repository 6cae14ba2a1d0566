"""Where the suite's time goes: `pytest --profile FILE` writes a line for each test, `python -m tests.harness.profile
FILE` adds them up by kind and by file.

Seconds are processor time, so that what else runs on the machine changes little; `wall` is time by the clock. Of a
test's seconds `llvm` went into the CPU backend's compiler, `mesa` into pipelines of WebGPU's driver, and `children`
into processes that it started (clang among them).
"""

from __future__ import annotations

import functools
import json
import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

KINDS = ("wall", "cpu", "llvm", "mesa", "children")


class Profile:
    """A plugin that notes what each test took."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spent: Counter[str] = Counter()
        self.collected = time.process_time()

    def clocks(self) -> Counter[str]:
        """What has been spent in this process up to now."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        now = Counter(self.spent)
        now["wall"] = time.perf_counter()  # type: ignore[assignment]
        now["cpu"] = time.process_time()  # type: ignore[assignment]
        now["children"] = children.ru_utime + children.ru_stime  # type: ignore[assignment]
        return now

    def watch(self, owner: type, name: str, kind: str) -> None:
        """Counts a compiler's time; its door is a method of a class."""
        door: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(door)
        def counted(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return door(*args, **kwargs)
            finally:
                self.spent[kind] += time.process_time() - start  # type: ignore[assignment]
                self.spent[f"{kind} calls"] += 1

        setattr(owner, name, counted)

    def write(self, name: str, spent: Counter[str]) -> None:
        """Adds a line to the file; workers share it, and each line is written at once."""
        line = json.dumps({"test": name, **{k: round(v, 4) for k, v in spent.items() if v}})
        with self.path.open("a") as file:
            file.write(line + "\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Around a test with its fixtures."""
        before = self.clocks()
        result = yield
        after = self.clocks()
        after.subtract(before)
        self.write(item.nodeid, after)
        return result

    def pytest_collection_finish(self) -> None:
        """What it took to import and collect, in this process."""
        self.write("collecting", Counter(cpu=time.process_time()))  # type: ignore[arg-type]


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


def added_up(path: Path) -> tuple[Counter[str], dict[str, Counter[str]]]:
    """The sums of a file: of all, and by test file."""
    whole: Counter[str] = Counter()
    files: dict[str, Counter[str]] = defaultdict(Counter)
    for line in path.read_text().splitlines():
        spent = json.loads(line)
        name = spent.pop("test")
        whole.update(spent | {"tests": 1})
        files[name.partition("::")[0]].update(spent | {"tests": 1})
    return whole, files


def main(path: str, rows: int = 40) -> None:
    """Prints the table."""
    whole, files = added_up(Path(path))
    longest = sorted(files.items(), key=lambda entry: -entry[1]["cpu"] - entry[1]["children"])
    print("| file | tests |", " | ".join(KINDS), "|")
    print("| :-- |", " --: |" * (len(KINDS) + 1))
    for name, spent in [("all", whole), *longest[:rows]]:
        print(f"| {name} | {spent['tests']} |", " | ".join(f"{spent[k]:.1f}" for k in KINDS), "|")


if __name__ == "__main__":
    main(sys.argv[1])
