"""Tests of which some fail, for tests/harness/test_run.py; the suite does not collect this file."""

from __future__ import annotations

import os

import pytest


@pytest.mark.parametrize("k", range(6))
def test_passes(k: int) -> None:
    assert k < 6


def test_fails() -> None:
    assert os.environ["HOLOGRAM_TESTS_KIND"] == "no kind"


def test_crashes() -> None:
    os._exit(3)
