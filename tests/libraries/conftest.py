"""Libraries too large for CI: `make libraries` runs a script of each, with the device or without a word of it.

The device is the machine's accelerator here, as where there is a GPU. `--table FILE` writes, in Markdown, what passed
with which version, and `--models FILE` what of each family of models was equal.
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
MODELS: dict[tuple[str, str], list[str]] = {}
COLUMNS = ("forward", "loss", "backward", "generate", "without a cache", "bf16")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--table", help="writes the table of docs/pytorch.md to this file")
    parser.addoption("--models", help="writes the table of docs/models.md to this file")


def pytest_configure() -> None:
    """Has torchvision import where it was built for another PyTorch than this."""
    from tests.torch.boxes import declare  # brings torch

    declare("nms", "qnms")


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
        given = getattr(own, "callspec", None)
        if report.when == "call" and given and "family" in given.params and "kind" in given.params:
            cells = dict(report.user_properties)
            row = [cells.get(column, "-" if report.passed else "differs") for column in COLUMNS]
            MODELS[given.params["kind"], given.params["family"]] = row


def pytest_sessionfinish(session: pytest.Session) -> None:
    table = session.config.getoption("--table")
    if table:
        rows = ["| library | what runs on the device | tests that pass |", "|---|---|---|"]
        for (library, about), passed in sorted(OUTCOMES.items()):
            rows.append(
                f"| {library} {version(library)} | {about.rstrip('.')} | {sum(passed)} of {len(passed)} |"
            )
        Path(table).write_text("\n".join(rows) + "\n")
    models = session.config.getoption("--models")
    if models:
        rows = ["| kind | family | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 2) + "|"]
        rows += [
            f"| {kind} | {family} | " + " | ".join(cells) + " |" for (kind, family), cells in MODELS.items()
        ]
        Path(models).write_text("\n".join(rows) + "\n")
