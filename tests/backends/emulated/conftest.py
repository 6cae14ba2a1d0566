"""The emulated backends for the length of a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hologram.backends import registry
from tests.backends import emulated


@pytest.fixture
def installed() -> Iterator[None]:
    """They are there, and the cards are of a machine of the test's own."""
    machine = pytest.importorskip("tests.backends.emulated.cuda", exc_type=ImportError)
    machine.library.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(emulated.SITE))
        registry.forget()
        yield
    registry.forget()
    machine.library.cache_clear()
