"""What Python computes of a call's numbers, in files: functions of the standard operators and NumPy's, by name."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hologram.foundation.errors import TraceError
from hologram.frontend.jit.number import KINDS, Fixed, Formulas, item, itself, number_of
from hologram.frontend.saved.values import dtype_of, kept_to, value_from

# By the name that stands in files; NumPy's functions of numbers stand as `numpy.sqrt`.
COMPUTED: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
        operator.neg, operator.invert, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift,
        abs, item, itself,
    )
} | {f"numpy.{name}": f for name, f in vars(np).items() if isinstance(f, np.ufunc) and f.nout == 1}  # fmt: skip
NAMES = {f: name for name, f in reversed(COMPUTED.items())}


def formulas_to(formulas: Formulas, given: Sequence[Any]) -> dict[str, Any]:
    """All that a trace computes of its numbers, as JSON."""
    made = []
    for compute, operands in formulas.made:
        if compute not in NAMES:
            raise TraceError(f"a number of the call goes through {compute!r}, which cannot be saved")
        made.append([NAMES[compute], [kept_to(o.value) if isinstance(o, Fixed) else [o] for o in operands]])
    known = formulas.places(given)[formulas.count :]
    return {
        "given": [kept_to(x) for x in given],
        "made": made,
        "known": [kept_to(x) for x in known],
        "wanted": [[dtype.name, [n.place for n in numbers]] for dtype, numbers in formulas.wanted.items()],
        "returned": [n.place for n in formulas.returned],
    }


def formulas_from(written: Any) -> tuple[Formulas, list[Any]]:
    """What is written so, and numbers like those that a call gives; raises ValueError and its like."""
    given, known = (list(map(_number, written[name])) for name in ("given", "known"))
    formulas = Formulas(given)
    for name, operands in written["made"]:
        most = len(given) + len(formulas.made)
        places = [_place(o[0], most) if type(o) is list else Fixed(value_from(o)) for o in operands]
        formulas.made.append((COMPUTED[name], tuple(places)))
    if len(known) != len(formulas.made):
        raise ValueError("each number that is computed has a value")
    values = [*given, *known]

    def number(place: Any) -> Any:
        return number_of(formulas, _place(place, len(values)), values[place], frozenset())

    for name, places in written["wanted"]:
        dtype = dtype_of(name)
        if dtype in formulas.wanted or not places:
            raise ValueError("numbers are wanted in each dtype once")
        formulas.wanted[dtype] = list(map(number, places))
    formulas.returned += map(number, written["returned"])
    return formulas, given


def _place(place: Any, most: int) -> int:
    if type(place) is not int or not 0 <= place < most:
        raise ValueError("a number is known by its place")
    return place


def _number(written: Any) -> Any:
    number = value_from(written)
    if type(number) not in KINDS:
        raise ValueError("a number is needed")
    return number
