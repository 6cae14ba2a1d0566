"""A plugin, `-p tests.harness.covering`, that notes which of our files each group of tests goes through."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.harness.choice import OURS, ROOT, group_of
from tests.harness.map import contexts

KNOWN = "known groups"  # what processes are told


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `pytest --help` says of it."""
    parser.addoption(
        "--coverage", metavar="FOLDER", required=True, help="where each process writes what it noted"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begins to note, in the processes that run tests."""
    folder, told = Path(config.option.coverage), getattr(config, "workerinput", None)
    if told is not None:
        config.pluginmanager.register(Coverage(folder, set(told[KNOWN])), "coverage of ours")
    elif config.option.dist == "no":
        config.pluginmanager.register(Coverage(folder, contexts(folder)), "coverage of ours")
    else:
        config.pluginmanager.register(Telling(contexts(folder)), "coverage that is known")


class Telling:
    """A plugin of the process that starts others: tells all of them the same, those that replace a dead one too."""

    def __init__(self, known: set[str]) -> None:
        self.known = sorted(known)

    def pytest_configure_node(self, node: Any) -> None:
        """Tells a process which groups are known."""
        node.workerinput[KNOWN] = self.known


class Coverage:
    """A plugin that has coverage.py note which files each group of tests goes through.

    It leaves out the groups that are `known`: those of a run into the same folder that was ended.
    """

    def __init__(self, folder: Path, known: set[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.known = known
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
