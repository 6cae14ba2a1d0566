"""Arguments that are neither arrays nor axes, checked where a user gave them: numbers, and sequences of something."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def number(given: Any, who: str) -> Any:
    """A real number as it is, or what stands for one; TypeError for what `float` does not take, and for text."""
    if not isinstance(given, (str, bytes, complex)) and hasattr(type(given), "__float__"):
        return given
    if hasattr(type(given), "__index__"):
        return given
    raise TypeError(f"{who} must be a number, got {given!r}")


def sequence(given: Any, who: str) -> tuple[Any, ...]:
    """The elements of a list, a tuple or an array; TypeError for what has none, and for text and dicts."""
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes, dict)):
        return tuple(given)
    raise TypeError(f"{who} must be a sequence, got {given!r}")


def without_fields(who: str, order: Any) -> None:
    """Refuses NumPy's `order`, which names fields of elements."""
    if order is not None:
        raise TypeError(f"{who}: elements have no fields to sort by, got order={order!r}")


def memory_order(given: Any, who: str, letters: str = "CFA") -> str:
    """NumPy's `order` of elements as one of `letters`: None is "C", and small letters are as good."""
    order = "C" if given is None else given
    if isinstance(order, str) and len(order) == 1 and order.upper() in letters:
        return order.upper()
    *rest, last = (repr(letter) for letter in letters)
    raise ValueError(f"{who}: order must be {', '.join(rest)} or {last}, got {given!r}")


def pair(given: Any, who: str) -> tuple[Any, Any]:
    """Two elements."""
    both = sequence(given, who)
    if len(both) != 2:
        raise ValueError(f"{who} must be two, got {given!r}")
    return both[0], both[1]
