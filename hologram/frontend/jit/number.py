"""Numbers among a jitted function's arguments, Python's and NumPy's: data of each call, not of the trace.

While a function is traced such a number is a TracedNumber. Where it enters element-wise arithmetic, a kernel reads it
from memory that a call fills; what Python computes of it alone is computed anew at every call, as it was before: in
double precision, in integers of any size, or as NumPy's scalars do. Wherever its value is asked for (`if`, `float`,
`math`, a size, an index) it gives that of this call, and the trace notes that it holds for this value only, and where
in the function that was.
"""

from __future__ import annotations

import functools
import math
import operator
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from hologram.foundation.dtypes import DType
from hologram.foundation.errors import UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.frontend.tensor import Tensor
from hologram.machine.strided import Strided
from hologram.runtime.engine import Engine
from hologram.runtime.launches.recording import Recording, spoil
from hologram.runtime.launches.validation import cache_key, held

recordings = Recording.open
PACKAGE = __name__.partition(".")[0]
# What is a number: a bool is a choice, and long doubles have more digits than a call passes on.
KINDS = frozenset({int, float, *(np.dtype(kind).type for kind in "efdbBhHiIlLqQ")})
CODES = {
    "f32": "f",
    "f64": "d",
    "i8": "b",
    "u8": "B",
    "i16": "h",
    "u16": "H",
    "i32": "i",
    "u32": "I",
    "i64": "q",
    "u64": "Q",
}  # of dtypes that `struct` packs as they are rounded anywhere
SCALARS = (int, float, np.generic)
OF_KIND = frozenset(
    {"dtype", "itemsize", "nbytes", "ndim", "shape", "size"}
)  # what NumPy's tell by their type


def is_integer(number: Any) -> bool:
    """Whether an operation takes a number for an integer; a traced one, too."""
    return isinstance(number, (int, np.integer))


class Unfit(UnsupportedDType):
    """A call's numbers are of another kind than the trace, or too large for the memory that kernels read them from.

    Such a call is traced for the values of these `numbers`, and does or raises what the function would without hg.jit.
    """

    def __init__(self, numbers: frozenset[int], what: str) -> None:
        super().__init__(what)
        self.numbers = numbers


@frozen
class Fixed:
    """A number that a formula has at every call."""

    value: Any


def itself(value: Any) -> Any:
    """The formula of a number that is fixed."""
    return value


def item(number: Any) -> Any:
    """The formula of a number of NumPy's as one of Python's."""
    return number.item()


class Formulas:
    """What a trace computes of its numbers: `places` are given at first, then what Python made of them, in order."""

    def __init__(self, given: Sequence[Any]) -> None:
        self.count = len(given)
        self.made: list[tuple[Callable[..., Any], tuple[int | Fixed, ...]]] = []
        self.asked: dict[
            int, str
        ] = {}  # given numbers whose value has a say in the trace, and where it was asked for
        self.wanted: dict[DType, list[TracedNumber]] = {}  # what kernels read, by the dtype they read it in
        self.returned: list[TracedNumber] = []  # results of the function
        self.hosted: list[Any] = []  # arrays that became constants (hosts.Hosted)
        self.computed: dict[Any, TracedNumber] = {}  # by what of which numbers: each once
        self._items: dict[int, TracedNumber] = {}  # by the place of a number of NumPy's, the same as Python's

    def numbers(self, given: Sequence[Any], fixed: Any) -> list[Any]:
        """What a trace is given for the numbers of a call: those that are fixed stay as they are."""
        return [x if k in fixed else number_of(self, k, x, frozenset({k})) for k, x in enumerate(given)]

    def offset(self, number: TracedNumber, dtype: DType) -> int:
        """Which of the numbers of a dtype this one is for the kernels."""
        wanted = self.wanted.setdefault(dtype, [])
        for k, other in enumerate(wanted):
            if other.place == number.place:
                return k
        wanted.append(number)
        return len(wanted) - 1

    def pair(self, first: TracedNumber, second: TracedNumber, dtype: DType) -> int:
        """Where two numbers lie side by side for the kernels."""
        wanted = self.wanted.setdefault(dtype, [])
        wanted += first, second
        return len(wanted) - 2

    def constant(self, value: Any) -> TracedNumber:
        """The same number at every call."""
        return self.formula(itself, (Fixed(value),), value, frozenset())

    def item(self, number: TracedNumber) -> TracedNumber:
        """A number of NumPy's as one of Python's."""
        made = self._items.get(number.place)
        if made is None:
            made = self._items[number.place] = self.formula(
                item, (number.place,), number.known.item(), number.behind
            )
        return made

    def formula(
        self,
        compute: Callable[..., Any],
        operands: tuple[int | Fixed, ...],
        known: Any,
        behind: frozenset[int],
    ) -> TracedNumber:
        """A number that is computed of others, by their places, at every call."""
        self.made.append((compute, operands))
        return number_of(self, self.count + len(self.made) - 1, known, behind)

    def places(self, given: Sequence[Any]) -> list[Any]:
        """All numbers of a call."""
        places = list(given)
        for compute, operands in self.made:
            places.append(compute(*[k.value if isinstance(k, Fixed) else places[k] for k in operands]))
        return places

    def results(self, given: Sequence[Any]) -> list[Any]:
        """Those that the function returns; they may be of any kind, as without a trace."""
        places = self.places(given)
        return [places[number.place] for number in self.returned]

    def memory(self, dtype: DType, places: Sequence[Any]) -> bytes:
        """What kernels read, of all numbers of a call; raises Unfit where one does not fit, or is complex."""
        numbers = self.wanted[dtype]
        values = [places[n.place] for n in numbers]
        for number, value in zip(numbers, values, strict=True):
            if isinstance(value, complex):  # (-4.0) ** 0.5, where the trace was made with another base
                raise Unfit(number.behind, f"a number of a call: {value} is complex")
            if is_integer(value) is not is_integer(number):  # 2 ** -1, where it was made with 2 ** 1
                raise Unfit(number.behind, f"a number of a call: {value} is of another kind than before")
        try:
            return held(values, dtype, "a number of a call").tobytes()
        except UnsupportedDType as error:
            raise Unfit(_beyond(dtype, numbers, values), str(error)) from None


class Held:
    """The numbers of one dtype, packed in one go where each is of the type that it had in the trace."""

    def __init__(self, formulas: Formulas, executor: Engine, dtype: DType) -> None:
        numbers = formulas.wanted[dtype]
        self._formulas = formulas
        self._executor = executor
        self._dtype = dtype
        self._kind = executor.kind((len(numbers),), dtype)
        self._places = [n.place for n in numbers]
        self._types = [type(n.known) for n in numbers]
        code = CODES.get(dtype.name)
        self._pack = None if code is None else struct.Struct(f"={len(numbers)}{code}").pack

    def tensor(self, places: Sequence[Any]) -> Tensor:
        """Those of a call, of all numbers of which `places` are some."""
        values = [places[k] for k in self._places]
        data = None
        if self._pack is not None and list(map(type, values)) == self._types:
            with suppress(struct.error, OverflowError):  # too large: infinite as a float, else refused
                data = self._pack(*values)
        if data is None:
            data = self._formulas.memory(self._dtype, places)
        if recordings:
            spoil()  # the host writes
        buffer = self._executor.new_buffer(self._kind)
        block = buffer.live_block("a number of a call")
        self._executor.device.write(block.memory, block.offset, memoryview(data))
        return Tensor(buffer, self._kind.layout)


class Numbers:
    """The numbers of calls as tensors; those of the last call are kept, for most calls give the same."""

    def __init__(self, formulas: Formulas, executor: Engine, given: Sequence[Any]) -> None:
        self._places = formulas.places
        self._held = [Held(formulas, executor, dtype) for dtype in formulas.wanted]
        self._pack = struct.Struct("".join("q" if is_integer(x) else "d" for x in given)).pack
        self._last: tuple[Any, list[Any]] = (None, [])
        self.results = formulas.results if formulas.returned else None

    def __call__(self, given: Sequence[Any]) -> list[Tensor]:
        """A tensor for each dtype."""
        try:
            key: Any = self._pack(*given)  # by their bits: NaN is NaN, and -0.0 is not 0.0
        except struct.error:  # an integer of more than 64 bits
            key = tuple(map(cache_key, given))
        last = self._last
        if last[0] != key:
            places = self._places(given)
            last = self._last = (key, [held.tensor(places) for held in self._held])
        return last[1]


def holds(dtype: DType, value: Any) -> bool:
    """Whether a dtype has a number."""
    try:
        held(value, dtype, "a number")
    except UnsupportedDType:
        return False
    return True


def _beyond(dtype: DType, numbers: Sequence[TracedNumber], values: Sequence[Any]) -> frozenset[int]:
    """The given numbers behind those that a dtype cannot hold."""
    unfit = [n.behind for n, value in zip(numbers, values, strict=True) if not holds(dtype, value)]
    return frozenset().union(*unfit)


def plain(x: Any) -> Any:
    """What stands for a size, an axis, an option: traced numbers by their value, in sequences too."""
    if isinstance(x, TracedNumber):
        return x.value
    return type(x)(map(plain, x)) if type(x) in (tuple, list) else x


def _asked(compute: Callable[..., Any], swapped: bool = False) -> Any:
    def ask(self: TracedNumber, *others: Any) -> Any:
        if not all(isinstance(other, SCALARS) for other in others):
            return NotImplemented
        known = [plain(other) for other in others]
        return compute(*known, self.value) if swapped else compute(self.value, *known)

    return ask


def _computed(compute: Callable[[Any, Any], Any], swapped: bool = False) -> Any:
    def method(self: TracedNumber, other: Any) -> Any:
        if not isinstance(other, (*SCALARS, complex)):
            return NotImplemented
        return _made(self.formulas, compute, (other, self) if swapped else (self, other))

    return method


def _made(formulas: Formulas, compute: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    """What is made of numbers; the plain result where it is none (a negative number to the power of 0.5)."""
    key = (compute, *[o.place if isinstance(o, TracedNumber) else (type(o), cache_key(o)) for o in operands])
    before = formulas.computed.get(key)
    if before is not None:
        return before
    traced = [o for o in operands if isinstance(o, TracedNumber)]
    value = compute(*(o.known if isinstance(o, TracedNumber) else o for o in operands))
    if type(value) not in KINDS:
        return compute(*map(plain, operands))
    places = tuple(o.place if isinstance(o, TracedNumber) else Fixed(o) for o in operands)
    made = formulas.formula(compute, places, value, frozenset().union(*(o.behind for o in traced)))
    return formulas.computed.setdefault(key, made)


def caller() -> tuple[str, int]:
    """The line that runs now outside of hologram, and how many calls up it is."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    return f"{frame.f_code.co_filename}:{frame.f_lineno}", level


class TracedNumber:
    """A number that may be another at the next call; `known` is what it is at this one, and `value` asks for that."""

    __slots__ = ("behind", "formulas", "known", "place")

    def __init__(self, formulas: Formulas, place: int, known: Any, behind: frozenset[int]) -> None:
        self.formulas = formulas
        self.place = place
        self.known = known
        self.behind = behind  # the given numbers that it depends on

    @property
    def value(self) -> Any:
        """This call's, which the trace depends on from now on."""
        asked = self.formulas.asked
        if not self.behind <= asked.keys():
            where, _ = caller()
            for number in self.behind:
                asked.setdefault(number, where)
        return self.known

    @property
    def __class__(self) -> type:  # type: ignore[override]  # so that isinstance(x, float) holds, as it does outside a trace
        return type(self.known)

    def __getattr__(self, name: str) -> Any:
        if name == "item" and isinstance(self.known, np.generic):
            return functools.partial(self.formulas.item, self)
        asks = name not in OF_KIND and hasattr(self.known, name)
        return getattr(self.value if asks else self.known, name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.value, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        """NumPy takes it for the number that it is, not for an array; what it makes of numbers alone is a formula."""
        numbers = all(isinstance(x, SCALARS) for x in inputs)
        if method == "__call__" and numbers and not settings and ufunc.nout == 1:
            return _made(self.formulas, ufunc, inputs)
        if any(isinstance(x, Strided) for x in inputs):
            return NotImplemented  # theirs comes next
        return getattr(ufunc, method)(*map(plain, inputs), **settings)

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
    __divmod__, __rdivmod__ = _asked(divmod), _asked(divmod, swapped=True)
    __lt__, __le__, __gt__, __ge__ = map(_asked, (operator.lt, operator.le, operator.gt, operator.ge))
    __eq__, __ne__, __hash__ = map(_asked, (operator.eq, operator.ne, hash))
    __bool__, __int__, __trunc__, __float__, __complex__ = map(
        _asked, (bool, int, math.trunc, float, complex)
    )
    __round__, __floor__, __ceil__ = map(_asked, (round, math.floor, math.ceil))
    __repr__, __str__ = map(_asked, (repr, str))

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)


class TracedInteger(TracedNumber):
    """One that Python also takes for a size or an index, which asks for its value."""

    __slots__ = ()

    def __index__(self) -> int:
        return operator.index(self.value)

    def __invert__(self) -> Any:
        return _made(self.formulas, operator.invert, (self,))

    __and__, __rand__ = _computed(operator.and_), _computed(operator.and_, swapped=True)
    __or__, __ror__ = _computed(operator.or_), _computed(operator.or_, swapped=True)
    __xor__, __rxor__ = _computed(operator.xor), _computed(operator.xor, swapped=True)
    __lshift__, __rlshift__ = _computed(operator.lshift), _computed(operator.lshift, swapped=True)
    __rshift__, __rrshift__ = _computed(operator.rshift), _computed(operator.rshift, swapped=True)


def number_of(formulas: Formulas, place: int, known: Any, behind: frozenset[int]) -> TracedNumber:
    """What stands for a number while a function is traced."""
    return (TracedInteger if is_integer(known) else TracedNumber)(formulas, place, known, behind)
