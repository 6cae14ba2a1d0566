"""Libraries too large for CI: `make libraries` runs a script of each, with the device or without a word of it.

The device is the machine's accelerator here, as where there is a GPU. `--table FILE` writes, in Markdown, what passed
with which version.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault(
    "HOLOGRAM_BACKEND", "cpu"
)  # before torch is imported, which asks what the accelerator is
OUTCOMES: dict[tuple[str, str], list[bool]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--table", help="writes the table of docs/pytorch.md to this file")


@pytest.fixture(autouse=True)
def seeded() -> None:
    import torch

    torch.manual_seed(0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    outcome: Any = yield
    report = outcome.get_result()
    own: Any = item
    about = (own.module.LIBRARY, own.module.__doc__.strip())
    if report.when == "call" or report.failed:
        OUTCOMES.setdefault(about, []).append(report.passed)


def pytest_sessionfinish(session: pytest.Session) -> None:
    table = session.config.getoption("--table")
    if table:
        rows = ["| library | what runs on the device | tests that pass |", "|---|---|---|"]
        for (library, about), passed in sorted(OUTCOMES.items()):
            rows.append(
                f"| {library} {version(library)} | {about.rstrip('.')} | {sum(passed)} of {len(passed)} |"
            )
        Path(table).write_text("\n".join(rows) + "\n")
