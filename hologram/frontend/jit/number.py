"""Python floats among a jitted function's arguments: numbers of each call, not of the trace.

While a function is traced such a float is a TracedNumber. Where it enters element-wise arithmetic, a kernel reads it
from memory that a call fills; what Python computes of it alone is computed anew at every call, in double precision as
before. Wherever its value is asked for (`if`, `float`, `math`, a shape) it gives that of this call, and the trace notes
that it holds for this value only.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hologram.dtypes import DType
from hologram.runtime.validation import held


class Formulas:
    """What a trace computes of its numbers: `places` are given at first, then what Python made of them, in order."""

    def __init__(self, given: Sequence[float]) -> None:
        self.count = len(given)
        self.made: list[tuple[Callable[..., float], tuple[int, ...]]] = []
        self.asked: set[int] = set()  # given numbers whose value has a say in the trace
        self.wanted: dict[DType, list[int]] = {}  # places that kernels read, by the dtype they are read in

    def offset(self, number: TracedNumber, dtype: DType) -> int:
        """Which of the numbers of a dtype this one is for the kernels."""
        wanted = self.wanted.setdefault(dtype, [])
        if number.place not in wanted:
            wanted.append(number.place)
        return wanted.index(number.place)

    def values(self, given: Sequence[float]) -> list[np.ndarray]:
        """What the kernels read at a call, by dtype; raises TypeError where Python makes a complex one."""
        places = list(given)
        for compute, operands in self.made:
            places.append(compute(*[places[k] for k in operands]))
        strange = [places[k] for at in self.wanted.values() for k in at if type(places[k]) is complex]
        if strange:  # (-4.0) ** 0.5, where the trace was made with another base
            raise TypeError(f"a tensor takes real numbers, and of those given Python makes {strange[0]}")
        return [held([places[k] for k in at], d, "a number of a call") for d, at in self.wanted.items()]


class Numbers:
    """The numbers of calls as tensors; those of the last call are kept, for most calls give the same."""

    def __init__(self, formulas: Formulas, tensor: Callable[[np.ndarray], Any]) -> None:
        self._formulas = formulas
        self._tensor = tensor
        self._pack = struct.Struct(f"{formulas.count}d").pack
        self._last: tuple[bytes, list[Any]] = (b"none", [])

    def __call__(self, given: Sequence[float]) -> list[Any]:
        """A tensor for each dtype."""
        key = self._pack(*given)  # by their bits: NaN is NaN, and -0.0 is not 0.0
        last = self._last
        if last[0] != key:
            last = self._last = (key, [self._tensor(values) for values in self._formulas.values(given)])
        return last[1]


def _asked(name: str) -> Any:
    method = getattr(float, name)

    def ask(self: TracedNumber, *others: Any) -> Any:
        for other in others:
            if name != "__format__" and not isinstance(other, (int, float)):
                return NotImplemented
        return method(self.value, *(o.value if type(o) is TracedNumber else o for o in others))

    return ask


def _computed(compute: Callable[[Any, Any], Any], swapped: bool = False) -> Any:
    def method(self: TracedNumber, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        return _made(self.formulas, compute, (a, b))

    return method


def _made(formulas: Formulas, compute: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    """What Python makes of numbers; the plain result where it is no float (a negative number to the power of 0.5)."""
    traced = [o for o in operands if type(o) is TracedNumber]
    found = compute(*(o.known if type(o) is TracedNumber else o for o in operands))
    if type(found) is not float:
        return compute(*(o.value if type(o) is TracedNumber else o for o in operands))
    fixed = [None if type(o) is TracedNumber else o for o in operands]

    def again(*numbers: float) -> float:
        rest = iter(numbers)
        return compute(*(next(rest) if o is None else o for o in fixed))

    formulas.made.append((again, tuple(o.place for o in traced)))
    place = formulas.count + len(formulas.made) - 1
    return TracedNumber(formulas, place, found, frozenset().union(*(o.behind for o in traced)))


class TracedNumber:
    """A float that may be another at the next call; `known` is what it is at this one, and `value` asks for that."""

    __slots__ = ("behind", "formulas", "known", "place")

    def __init__(self, formulas: Formulas, place: int, known: float, behind: frozenset[int]) -> None:
        self.formulas = formulas
        self.place = place
        self.known = known
        self.behind = behind  # the given numbers that it depends on

    @property
    def value(self) -> float:
        """This call's, which the trace depends on from now on."""
        self.formulas.asked |= self.behind
        return self.known

    @property
    def __class__(self) -> type:  # type: ignore[override]  # so that isinstance(x, float) holds, as it does outside a trace
        return float

    def __getattr__(self, name: str) -> Any:
        return getattr(self.value if hasattr(float, name) else 0.0, name)

    def __float__(self) -> float:
        return self.value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.value, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        """NumPy takes it for the number of Python's that it is, not for an array."""
        return getattr(ufunc, method)(
            *(x.value if type(x) is TracedNumber else x for x in inputs), **settings
        )

    def __neg__(self) -> Any:
        return _made(self.formulas, operator.neg, (self,))

    def __pos__(self) -> TracedNumber:
        return self

    def __abs__(self) -> Any:
        return _made(self.formulas, abs, (self,))

    __add__, __radd__ = _computed(operator.add), _computed(operator.add, swapped=True)
    __sub__, __rsub__ = _computed(operator.sub), _computed(operator.sub, swapped=True)
    __mul__, __rmul__ = _computed(operator.mul), _computed(operator.mul, swapped=True)
    __truediv__, __rtruediv__ = _computed(operator.truediv), _computed(operator.truediv, swapped=True)
    __floordiv__, __rfloordiv__ = _computed(operator.floordiv), _computed(operator.floordiv, swapped=True)
    __mod__, __rmod__ = _computed(operator.mod), _computed(operator.mod, swapped=True)
    __pow__, __rpow__ = _computed(operator.pow), _computed(operator.pow, swapped=True)
    __divmod__, __rdivmod__ = _asked("__divmod__"), _asked("__rdivmod__")
    __lt__, __le__, __gt__, __ge__ = map(_asked, ("__lt__", "__le__", "__gt__", "__ge__"))
    __eq__, __ne__, __hash__ = map(_asked, ("__eq__", "__ne__", "__hash__"))
    __bool__, __int__, __trunc__ = map(_asked, ("__bool__", "__int__", "__trunc__"))
    __round__, __floor__, __ceil__ = map(_asked, ("__round__", "__floor__", "__ceil__"))
    __repr__, __str__, __format__ = map(_asked, ("__repr__", "__str__", "__format__"))
