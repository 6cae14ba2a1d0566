"""What every test shares: the --backend option, an executor for each backend, and no silent skips in CI."""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import hologram as hg
from hologram.backends import registry
from tests.backends import emulated
from tests.harness import run
from tests.harness.sampling import backend_of
from tests.harness.store import store
from tests.needs import Lacking

# Everything else runs in CI: the machine installs what it needs (requirements/). wgpu asks for Python 3.11.
ABSENT_IN_CI = ("cuda", "metal") if sys.version_info >= (3, 11) else ("cuda", "metal", "webgpu")


def pytest_addoption(parser: pytest.Parser) -> None:
    run.add_options(parser)
    parser.addoption(
        "--backend",
        action="append",
        choices=sorted({*registry.discover(), *emulated.NAMES}),
        help="run the tests on this backend only (may be repeated); a test that it cannot run fails",
    )
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files anew instead of comparing (say in the commit why they changed)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """What tests compile persists for their run only, and never meets the user's own kernels."""
    run.configure(config)
    if set(emulated.NAMES) & set(config.getoption("--backend") or ()):
        emulated.install()
    # The workers of xdist share the directory of the process that starts them.
    if not hasattr(config, "workerinput"):
        folder = store()
        os.environ["HOLOGRAM_CACHE_DIR"] = folder.name
        config.add_cleanup(folder.cleanup)


@functools.lru_cache(maxsize=1)
def present() -> tuple[str, ...]:
    """The backends to test: all but those that neither this machine nor CI's has, of which the header says why."""
    return tuple(name for name in registry.discover() if name not in ABSENT_IN_CI or not absence(name))


@functools.cache
def absence(name: str) -> str:
    """Why a backend cannot be used here; nothing if it can."""
    try:
        hg.Executor(backend=name).close()
    except hg.BackendUnavailable as error:
        return str(error)
    return ""


def pytest_report_header(config: pytest.Config) -> list[str]:
    asked = config.getoption("--backend") or present()
    absent = [f"not tested: {name} ({absence(name)})" for name in ABSENT_IN_CI if name not in asked]
    return [f"backends: {', '.join(asked)}", *absent]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        names = metafunc.config.getoption("--backend") or present()
        metafunc.parametrize("backend", names, scope="session")


def pytest_collection_finish() -> None:
    """Takes the tests themselves, a million objects, out of every collection of garbage that they ask for."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def kept_apart() -> Iterator[None]:
    """What a file's tests leave (kernels, plans, executors) is looked through once, not by every collection after."""
    yield
    gc.collect()
    gc.freeze()


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


ADAPTERS = {
    "workgroup": {"software": False},
    # Without subgroups there are no matrix units, which are theirs.
    "register": {
        "software": True,
        "subgroup": 1,
        "matrix_dtypes": frozenset(),
        "rounded_dtypes": frozenset(),
        "matrix_attention": False,
        "bulk_bytes": 0,
    },
    "subgroup": {"software": True},  # by its subgroups, where it has any
}


@pytest.fixture(params=ADAPTERS)
def adapter(request: pytest.FixtureRequest, executor: hg.Executor) -> Iterator[hg.Executor]:
    """The executor, taken for one whose device is, or is not, emulated by a CPU."""
    target = executor.target  # what plans ask; the device stays what it is
    executor.target = replace(target, limits=replace(target.limits, **ADAPTERS[request.param]))
    executor.structures.clear()
    yield executor
    executor.target = target
    executor.structures.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Turns a skip into a failure where it may not be."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and not excused(item, call):
        forbid_skip(report, backend_of(item), item.config)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    """The same for files that skip themselves as a whole."""
    report = yield
    if report.skipped:
        forbid_skip(report, backend_of(collector), collector.config)
    return report


def excused(item: pytest.Item, call: pytest.CallInfo[None]) -> bool:
    """Whether no installing mends what a test lacks: `skipif` says it of Python, HOLOGRAM_WITHOUT took it away."""
    reason = call.excinfo.value if call.excinfo else None
    return item.get_closest_marker("skipif") is not None or (isinstance(reason, Lacking) and reason.told)


def forbid_skip(report: Any, backend: str | None, config: pytest.Config) -> None:
    """Fails a skipped test of a backend that was asked for; and in CI, of all but the backends no machine there has."""
    asked = config.getoption("--backend") or []
    if backend in asked or (os.environ.get("CI") and not asked and backend not in ABSENT_IN_CI):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, but must run here: {reason}"
