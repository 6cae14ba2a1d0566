"""What every test shares: the --backend option, an executor for each backend, and no silent skips in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import hologram as hg
from hologram.device import BackendType

# A backend whose tests must really run in CI: the machine there installs what it needs (requirements/system.sh).
NEVER_SKIPPED_IN_CI = ("cpu", "webgpu")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        action="append",
        choices=[backend.value for backend in BackendType],
        help="run the tests on this backend only (may be repeated); a test that it cannot run fails",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        names = metafunc.config.getoption("--backend") or [backend.value for backend in BackendType]
        metafunc.parametrize("backend", names, scope="session")


@pytest.fixture(scope="session")
def executors() -> Iterator[dict[str, hg.Executor]]:
    """The executors that are open, by backend: one each for a whole run."""
    opened: dict[str, hg.Executor] = {}
    yield opened
    for executor in opened.values():
        executor.close()


@pytest.fixture
def executor(backend: str, executors: dict[str, hg.Executor]) -> hg.Executor:
    """An executor on the test's backend; where that is not here the test is skipped, with the reason."""
    if backend not in executors:
        try:
            executors[backend] = hg.Executor(backend=backend)
        except hg.BackendUnavailable as error:
            pytest.skip(str(error))
    return executors[backend]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Turns a skip into a failure where the backend was asked for, or must be there."""
    report = yield
    if not report.skipped or hasattr(report, "wasxfail"):
        return report
    backend = backend_of(item)
    asked = item.config.getoption("--backend") or (NEVER_SKIPPED_IN_CI if os.environ.get("CI") else ())
    if backend in asked:
        report.outcome = "failed"
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = f"{item.nodeid} was skipped, but {backend} must run here: {reason}"
    return report


def backend_of(item: pytest.Item) -> str | None:
    """The backend that a test is for: its parameter, or its folder under tests/backends."""
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "backend" in callspec.params:
        return callspec.params["backend"]
    parts = item.path.parts
    if "backends" in parts:
        folder = parts[parts.index("backends") + 1]
        return folder if folder in {backend.value for backend in BackendType} else None
    return None
