"""What a device keeps at hand of all that it compiled."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from hologram.foundation.bounded_caches import LRUCache, found_again


def test_what_was_asked_for_longest_ago_goes_first() -> None:
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key.upper()

    recent: LRUCache[str, str] = LRUCache(2)
    assert [recent.get(key, make) for key in "abac"] == ["A", "B", "A", "C"]
    assert made == ["a", "b", "c"]
    assert len(recent) == 2
    assert recent.get("a", make) == "A"
    assert made == ["a", "b", "c"]
    recent.get("b", make)
    assert made == ["a", "b", "c", "b"]
    recent.clear()
    assert len(recent) == 0


def test_what_cannot_be_made_is_asked_for_again() -> None:
    recent: LRUCache[int, float] = LRUCache(2)
    with pytest.raises(ZeroDivisionError):
        recent.get(0, lambda key: 1 / key)
    assert recent.get(0, float) == 0.0


def test_threads_get_one_value() -> None:
    recent: LRUCache[int, object] = LRUCache(4)
    meeting = threading.Barrier(4)

    def make(_: int) -> object:
        meeting.wait(10)  # all of them are making it
        return object()

    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(recent.get(1, make))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(map(id, found))) == 1


def test_what_is_given_up_goes_after_a_few_others() -> None:
    recent: LRUCache[str, str] = LRUCache(8, spared=1)
    for key in "abcd":
        recent.get(key, str.upper)
    recent.give_up("a")
    recent.give_up("unknown")
    assert len(recent) == 4
    recent.give_up("b")
    assert len(recent) == 3  # "a" went, "b" waits
    assert recent.get("b", str.lower) == "B"
    recent.give_up("c")
    recent.give_up("d")
    assert recent.get("b", str.lower) == "B"
    assert recent.get("c", str.lower) == "c"


def test_a_finalizer_may_give_up_while_a_value_is_looked_up() -> None:
    recent: LRUCache[str, str] = LRUCache(8)
    recent.get("a", str.upper)

    class Key(str):
        __slots__ = ()

        def __hash__(self) -> int:  # called by who holds the lock
            recent.give_up("a")
            return super().__hash__()

    recent.get(Key("b"), str.upper)
    assert recent.get("a", str.lower) == "a"


def test_equal_arguments_find_one_object_while_somebody_has_it() -> None:
    made: list[int] = []

    @found_again
    def table(n: int) -> np.ndarray:
        made.append(n)
        return np.arange(n)

    first = table(3)
    assert table(3) is first
    assert table(4) is not first
    assert made == [3, 4]
    del first
    gc.collect()
    assert table(3).tolist() == [0, 1, 2]
    assert made.count(3) == 2
