"""Numbers go where the test's executor is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import hologram as hg


@pytest.fixture(autouse=True)
def default(executor: hg.Executor) -> Iterator[None]:
    """Numbers and arrays go to the executor of the test."""
    with hg.use_executor(executor):
        yield
