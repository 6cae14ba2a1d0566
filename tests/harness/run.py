"""Options of a run, what its processes are told, and what it says at its end."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.harness import kinds, profile
from tests.harness.choice import ROOT, Choice, choose
from tests.harness.pool import Pool
from tests.harness.sampling import kept

RESTARTS = 8  # of processes that died: a file that kills each would be tried for ever


def add_options(parser: pytest.Parser) -> None:
    """What `pytest --help` says of them."""
    group = parser.getgroup("hologram", "what is run, and in which order")
    group.addoption(
        "--pool",
        type=int,
        metavar="N",
        help="all kinds of process (tests/harness/kinds.py), N at work at a time, the longest tests first",
    )
    group.addoption(
        "--kinds", metavar="NAMES", help="these kinds of process alone; --every says how many of their tests"
    )
    group.addoption(
        "--minutes",
        type=float,
        default=float("inf"),
        help="run what changes touch, and so much of the other tests as takes this time by the map of the suite",
    )
    group.addoption("--touched", action="store_true", help="run what changes touch alone")
    group.addoption(
        "--residue", type=int, help="which part of the tests that are left to other runs this one takes"
    )
    group.addoption(
        "--every",
        type=int,
        default=1,
        metavar="N",
        help="run one test in N, evenly spread: a part, always the same, of what takes too long as a whole",
    )
    group.addoption("--whole", action="store_true", help="run all of what the mark `sampled` thins out")
    group.addoption(
        "--profile",
        metavar="FILE",
        help="note what each test takes; `python -m tests.harness.profile FILE` adds it up",
    )


class Run:
    """A plugin: in the process that starts others, and in each of those."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.worker: dict[str, Any] | None = getattr(config, "workerinput", None)
        self.counts: dict[str, tuple[int, int]] = {}  # by kind: the tests that are run, and all
        if self.worker is not None:
            self.choice = Choice.of(self.worker["choice"])
        else:
            width = config.getoption("--pool") or config.getoption("numprocesses", None) or 1
            asked = config.option
            self.choice = choose(asked.minutes, width, asked.residue, asked.touched)

        self.pool: Pool | None = None
        self.files = {group.partition("[")[0] for group in self.choice.groups}

    @property
    def missing(self) -> list[str]:
        """Kinds of process that this machine cannot start, and why."""
        if not self.config.getoption("--pool"):
            return []
        wanted = kinds.asked(self.config.getoption("--kinds"))
        return [f"not tested: {kind.name} ({kind.missing})" for kind in wanted if kind.missing]

    @property
    def unfinished(self) -> list[str]:
        """Kinds of process that were begun and have not run all their tests."""
        if self.pool is None:
            return []
        wanted = kinds.asked(self.config.getoption("--kinds"))
        return self.pool.unfinished([kind.name for kind in wanted if not kind.missing])

    def pytest_report_header(self) -> list[str]:
        """What is run, and what is not."""
        return [f"chosen: {self.choice}", *self.missing]

    def pytest_configure_node(self, node: Any) -> None:
        """Tells a process what is chosen."""
        node.workerinput["choice"] = self.choice.told()

    def pytest_xdist_make_scheduler(self, config: pytest.Config) -> Any:
        """The pool, where it was asked for."""
        width = config.getoption("--pool")
        if width:
            self.pool = Pool(len(config.option.tx), width, self.choice.cost, self._found)
        return self.pool

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keeps what counts the tests."""
        self.session = session

    def _found(self, tests: int) -> None:
        self.session.testscollected = tests

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leaves files to other kinds of process, and those that no change touches where these alone are run."""
        kind = kinds.of_process()
        if not collection_path.is_relative_to(ROOT):
            return None
        path = collection_path.relative_to(ROOT).as_posix()
        if self.choice.only and collection_path.is_file() and path not in self.files:
            return True
        if kind is None:
            return None
        if collection_path.is_dir():
            wanted = (*kind.files, *kind.thinned)
            inside = not wanted or any(f.startswith(f"{path}/") or f"{path}/".startswith(f) for f in wanted)
            return None if inside else True
        return None if kind.runs(path) else True

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keeps the tests that are chosen."""
        chosen = kept(items, self.config, self.choice)
        kind = kinds.of_process()
        self.counts[kind.name if kind else "all"] = (len(chosen), len(items))
        left_out = set(items).difference(chosen)
        if left_out:
            items[:] = chosen
            self.config.hook.pytest_deselected(items=list(left_out))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Any:
        """Says of a failure in which kind of process it came."""
        report = yield
        kind = kinds.of_process()
        if kind is not None and report.failed:
            words = [f"{name}={value}" for name, value in kind.environment.items()]
            report.sections.append(("kind of process", " ".join([kind.name, *words])))
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Any:
        """Tells the process that started this one how many tests there were."""
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output["counts"] = self.counts
        if self.choice.only and not self.files and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK  # nothing is touched
        green = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if self.unfinished and session.exitstatus in green:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return (yield)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Keeps what a process tells at its end."""
        self.counts.update(getattr(node, "workeroutput", {}).get("counts", {}))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """How much of how much was run, and where the rest is."""
        run, every = (sum(numbers) for numbers in zip((0, 0), *self.counts.values(), strict=True))
        parts = [f"{name} {some:,} of {many:,}" for name, (some, many) in self.counts.items()]
        terminalreporter.write_line(f"cases chosen: {run:,} of {every:,} ({', '.join(parts)})")
        terminalreporter.write_line(f"chosen: {self.choice}; marks that thin out, part {self.choice.turn}")
        for name in self.unfinished:
            terminalreporter.write_line(f"NOT ALL RUN: {name}", red=True)
        for line in self.missing:
            terminalreporter.write_line(line)


def configure(config: pytest.Config) -> None:
    """Prepares a process; called once its options are read."""
    # A shell that starts a run in the background has it ignore Ctrl-C, which tests send.
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        and threading.current_thread() is threading.main_thread()
    ):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    kind = kinds.of_process()
    if kind is not None and kind.backends and not config.getoption("--backend"):
        config.option.backend = list(kind.backends)
    width = config.getoption("--pool")
    if width and not hasattr(config, "workerinput"):
        try:
            wanted = kinds.asked(config.getoption("--kinds"))
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None
        config.option.tx = list(kinds.specifications(wanted, width))
        config.option.dist = "load"
        config.option.maxworkerrestart = config.option.maxworkerrestart or str(RESTARTS)
    if config.option.profile:
        profile.install(config, config.option.profile)
    config.pluginmanager.register(Run(config), "run")
