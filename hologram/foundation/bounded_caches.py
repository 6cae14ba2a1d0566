"""What was asked for last, of things that can be made again."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def found_again(make: Callable[..., V]) -> Callable[..., V]:
    """Has a function give one object for equal arguments as long as somebody has it, so that its address tells it."""
    alive: WeakValueDictionary[Hashable, V] = WeakValueDictionary()

    @functools.wraps(make)
    def found(*arguments: Hashable) -> V:
        known = alive.get(arguments)
        return alive.setdefault(arguments, make(*arguments)) if known is None else known

    return found


class FIFOCache(dict[K, V]):
    """Values by key, looked up as in any dictionary; `keep` drops the oldest where there are `most` already."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self._lock = threading.Lock()

    def keep(self, key: K, value: V) -> V:
        """Keeps the value, and gives it."""
        with self._lock:
            while len(self) >= self.most and key not in self:
                self.pop(next(iter(self)), None)
            self[key] = value
        return value


class LRUCache(Generic[K, V]):
    """Values by key, made where they are missing; beyond `most`, the one not asked for longest goes.

    Of those that are given up, `spared` wait for somebody who asks again. Any thread may ask. Two that ask for one
    missing key at once may both make it; all get the first one's. `made` counts those that were missing.
    """

    def __init__(self, most: int, spared: int = 0) -> None:
        self.most = most
        self.spared = spared
        self.made = 0
        self._given_up: OrderedDict[K, None] = OrderedDict()
        self._leaving: deque[K] = deque()
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K, make: Callable[[K], V]) -> V:
        """The value of a key; raises what `make` raises."""
        with self._lock:
            self._let_go()
            if key in self._values:
                self._given_up.pop(key, None)
                self._values.move_to_end(key)
                return self._values[key]
        made = make(key)
        with self._lock:
            value = self._values.setdefault(key, made)
            self.made += 1
            if len(self._values) > self.most:
                self._given_up.pop(self._values.popitem(last=False)[0], None)
        return value

    def drop(self, stale: Callable[[K], bool]) -> None:
        """Lets go of the values whose keys are stale."""
        with self._lock:
            for key in [key for key in self._values if stale(key)]:
                del self._values[key]
                self._given_up.pop(key, None)

    def give_up(self, key: K) -> None:
        """Says that who asked for a key needs it no more; only others can want it now. Finalizers may call it."""
        self._leaving.append(key)
        if self._lock.acquire(blocking=False):  # who holds it may be what a finalizer interrupts
            try:
                self._let_go()
            finally:
                self._lock.release()

    def _let_go(self) -> None:
        while self._leaving:
            key = self._leaving.popleft()
            if key in self._values:
                self._given_up[key] = None
            if len(self._given_up) > self.spared:
                del self._values[self._given_up.popitem(last=False)[0]]

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._given_up.clear()

    def __len__(self) -> int:
        return len(self._values)
