"""Launches that are told at the call where their operands lie: what backends have in common that compile text."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from hologram.compiled.text_kernel import TextKernel
from hologram.compiler.dialect import words
from hologram.foundation.bounded_caches import FIFOCache
from hologram.foundation.dtypes import f32
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding, Bindings, Call, Places, Prepared, Scalars
from hologram.machine.plan import Given
from hologram.machine.rebinding import MAX_BOUND

OFTEN = 3  # calls on the same memory, behind which launches are bound to it
MANY = 4  # launches in order, from which on that is worth it


@frozen
class Lie:
    """How a call's operands lie: bindings like those of any, and of each an argument and bytes behind its place."""

    bindings: Bindings
    scalars: Scalars
    areas: tuple[tuple[int, int], ...]


def lie(call: Call, kernel: TextKernel, arguments: Sequence[Any], places: Places) -> Lie | None:
    """That of a call on memory like this; None where there is nothing to launch. Raises as `TextKernel.bind`."""
    given = [Binding(*places.find(place), nbytes) for place, nbytes in call.spans(arguments)]
    checked = kernel.checked(given, call.scalars, call.grid)
    if checked is None:
        return None
    bindings, scalars = checked
    # A binding may begin behind its area, for what lies too far behind that.
    areas = [
        (area.argument, area.first + bound.offset - binding.offset)
        for area, bound, binding in zip(call.areas, bindings, given, strict=True)
    ]
    return Lie(bindings, scalars, tuple(areas))


def numbers(source: Any, scalars: Scalars, axes: int, begin: int = 0) -> tuple[tuple[int, int], ...] | None:
    """At which byte of a launch's numbers, which begin at `begin`, are those that a call is told, and their arguments.

    None where one is not f32.
    """
    found: list[tuple[int, int]] = []
    for k, x in enumerate(scalars):
        if type(x) is not Given:
            continue
        if source.parameters[axes + k].dtype is not f32:
            return None
        before = source.parameters[: axes + k]
        found.append((begin + 4 * sum(words(p.dtype, source.index_bits) for p in before), x.argument))
    return tuple(found)


def prepared(
    calls: Sequence[Call],
    slot_of: Callable[[Call], Any],
    told: Callable[[Sequence[Any]], Prepared],
    bound: Callable[[Sequence[Call]], Prepared],
) -> Prepared:
    """The calls in order as one launch.

    `slot_of` gives the slots of a call, none for one over nothing, and None for one that cannot be told; `told` makes a
    launch of slots. What cannot be told is bound to memory, and so are long sequences that come often on the same.
    """
    launches: list[Prepared] = []
    both = [(call, slot_of(call)) for call in calls]
    for can, group in itertools.groupby(both, lambda pair: pair[1] is not None):
        members = list(group)
        if can:
            launches.append(told([slot for _, slots in members for slot in slots]))
        else:
            launches.append(bound([call for call, _ in members]))
    if len(calls) >= MANY:
        return InTurn(launches, bound(calls))
    return launches[0] if len(launches) == 1 else InTurn(launches)


class InTurn:
    """Launches in order, told what they are given; where they come often on the same memory, those bound to it.

    Of more sets of memory than can stay bound, calls are counted of the last: then none comes often.
    """

    def __init__(self, launches: Sequence[Prepared], bound: Prepared | None = None) -> None:
        self._launches = tuple(launches)
        self._bound = bound
        self._met: FIFOCache[tuple[Any, ...], int] = FIFOCache(MAX_BOUND)

    def __call__(self, arguments: list[Any]) -> None:
        if self._bound is not None:
            key = tuple(arguments)
            calls = self._met.get(key) or 0
            if calls >= OFTEN:
                self._bound(arguments)
                return
            self._met.keep(key, calls + 1)
        for launch in self._launches:
            launch(arguments)
