"""Launches for devices that cannot be told memory: bound anew to what was not met lately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hologram.foundation.bounded_caches import LRUCache
from hologram.machine.kernel import Binding, Call, Launch, Places
from hologram.machine.plan import Given

MAX_BOUND = 64  # sets of memory that one prepared launch is bound to


class Rebinding:
    """Calls that are bound to each set of memory they meet; the last few stay bound."""

    def __init__(
        self, sequence: Callable[[Sequence[Launch]], Launch], calls: Sequence[Call], places: Places
    ) -> None:
        self._sequence = sequence
        self._calls = tuple(calls)
        self._places = places
        self._bound: LRUCache[tuple[Any, ...], Launch] = LRUCache(MAX_BOUND)

    def __call__(self, arguments: list[Any]) -> None:
        # -0.0 is another number than 0.0, and NaN the same as itself. Code, and what a sequence becomes, take memory.
        key = tuple([x if type(x) is int else repr(x) for x in arguments])
        self._bound.get(key, lambda _: self._places.with_room(self._bind, arguments))()

    def forget(self, place: int, nbytes: int) -> None:
        """Drops what is bound to that memory."""
        end = place + nbytes
        self._bound.drop(lambda arguments: any(type(x) is int and place <= x < end for x in arguments))

    def _bind(self, arguments: list[Any]) -> Launch:
        launches = []
        for call in self._calls:
            bindings = [Binding(*self._places.find(place), nbytes) for place, nbytes in call.spans(arguments)]
            scalars = [arguments[x.argument] if type(x) is Given else x for x in call.scalars]
            launches.append(call.kernel.bind(bindings, scalars, call.grid))
        return self._sequence(launches)
