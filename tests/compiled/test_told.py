"""Launches in order that are told what they are given, and bound where they come often on the same memory."""

from __future__ import annotations

import pytest

from hologram.compiled.told import OFTEN, InTurn
from hologram.machine.rebinding import MAX_BOUND


@pytest.mark.parametrize("sets", [1, MAX_BOUND, MAX_BOUND + 1])
def test_no_more_sets_of_memory_are_bound_than_stay_so(sets: int) -> None:
    """Else each call would bind anew what the ones between have driven out."""
    told: list[int] = []
    bound: list[int] = []
    launch = InTurn([lambda given: told.append(given[0])], lambda given: bound.append(given[0]))
    for _ in range(OFTEN + 2):
        for k in range(sets):
            launch([k, 1.5])
    assert told == list(range(sets)) * (OFTEN + 2 if sets > MAX_BOUND else OFTEN)
    assert bound == ([] if sets > MAX_BOUND else list(range(sets)) * 2)
