"""A plugin, `-p tests.harness.covering`, that notes which of our files each group of tests goes through."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

from tests.harness.choice import OURS, ROOT, group_of
from tests.harness.map import contexts


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `pytest --help` says of it."""
    parser.addoption(
        "--coverage", metavar="FOLDER", required=True, help="where each process writes what it noted"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begins to note, in the processes that run tests."""
    if hasattr(config, "workerinput") or config.option.dist == "no":
        config.pluginmanager.register(Coverage(Path(config.option.coverage)), "coverage of ours")


class Coverage:
    """A plugin that has coverage.py note which files each group of tests goes through.

    Groups that the folder knows already are left out: a run that was ended is gone on with.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.known = contexts(folder)
        self.coverage = coverage.Coverage(
            data_file=str(folder / f"{os.getpid()}.sqlite"),
            source=[str(ROOT / name) for name in OURS],
            config_file=False,
        )
        self.coverage.start()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leaves out what is known."""
        items[:] = [item for item in items if group_of(item.nodeid) not in self.known]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Names the group of what is run from here on."""
        self.coverage.switch_context(group_of(item.nodeid))
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Writes what was noted."""
        self.coverage.stop()
        self.coverage.save()
