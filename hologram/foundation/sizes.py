"""Sizes that remember what they were computed from, so that what was planned for one shape serves others.

A `Size` is an integer in whatever computes with it. While its `Trace` is open, arithmetic on it makes further sizes,
and whatever is decided by one (a comparison, a look at its digits) is kept as a condition. `Trace.function` then gives
the same results for other values of the symbols, or None where one of the decisions would have been another. The idea
is that of PyTorch's symbolic shapes, kept to integers.

C asks some integers without their knowing: `range`, `hex`, `math.gcd` and `math.isqrt`, NumPy, `[0] * n`, and a float
on the left of an operator. Planning code writes `fixed_range`, `int(n)`, and `n * 0.5` instead. What was forgotten is
found by going both ways for many sizes: tests/runtime/test_classes.py and tests/torch/test_templates.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

plain = int.__int__  # the integer that a size is; asks nothing


class Trace:
    """What was computed from symbols, in order, and decided."""

    def __init__(self) -> None:
        self.open = True
        self.symbols: list[Size] = []
        self.lines: list[tuple[str, str]] = []  # a name and its expression; conditions have no name
        self._known: dict[str, Size | Real] = {}
        self._met: set[str] = set()

    def symbol(self, value: int) -> Size:
        """A size that stands for what `function` is given next."""
        size = Size(value, self, f"s{len(self.symbols)}")
        self.symbols.append(size)
        return size

    def let(self, value: int | float, expression: str) -> Size | Real:
        """What an expression of sizes is."""
        number = self._known.get(expression)
        if number is None:
            kind: Any = Size if isinstance(value, int) else Real
            number = self._known[expression] = kind(value, self, f"v{len(self.lines)}")
            self.lines.append((number.name, expression))
        return number

    def require(self, condition: str) -> None:
        """Keeps what something was decided by."""
        if self.open and condition not in self._met:
            self._met.add(condition)
            self.lines.append(("", condition))

    def close(self) -> None:
        """Ends it: sizes are as other integers then, and it keeps nothing."""
        self.open = False
        self.lines.clear()
        self._known.clear()
        self._met.clear()

    def function(self, result: str, known: dict[str, Any], checked: bool = True) -> Callable[..., Any]:
        """Of values of the symbols, an expression of sizes and of `known` names; None where a decision differs.

        It is not asked whether one does where that was `checked` before.
        """
        lines = [f"def function({', '.join(s.name for s in self.symbols)}):"]
        needed = self._needed(result, checked)
        for name, expression in self.lines:
            if not name and checked:
                lines.append(f" if not ({expression}): return None")
            elif name in needed:
                lines.append(f" {name} = {expression}")
        lines.append(f" return {result}")
        exec("\n".join(lines), known)
        return known["function"]

    def _needed(self, result: str, checked: bool) -> set[str]:
        names = set(_names(result))
        for name, expression in reversed(self.lines):
            if name in names or (not name and checked):
                names.update(_names(expression))
        return names


def _names(expression: str) -> list[str]:
    """The sizes in an expression."""
    words = expression.translate(_APART).split()
    return [word for word in words if word[0] == "v" and word[1:].isdigit()]


_APART = {ord(c): " " for c in "()+-*/%<>=!,[]&|^~.:"}


def fixed_range(*bounds: int) -> Sequence[int]:
    """range(*bounds), which itself does not ask sizes: how many there are is thereby decided, unless it is one."""
    if len(bounds) == 3 and bounds[0] < bounds[1] <= bounds[0] + bounds[2]:
        return (bounds[0],)
    return range(*(x.fixed() if isinstance(x, Size) else x for x in bounds))


def whole(number: float) -> int:
    """int(number), which decides nothing."""
    if isinstance(number, Real) and number.trace.open:
        return number.trace.let(int(_plain(number)), f"int({number.name})")  # type: ignore[return-value]
    return int(number)


class _Traced:
    """A number with its expression."""

    trace: Trace
    name: str

    def __hash__(self) -> int:
        return hash((id(self.trace), self.name))

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __reduce__(self) -> Any:
        return (type(self).__mro__[2], (self.fixed(),))

    def __pos__(self) -> Any:
        return self

    def __neg__(self) -> Any:
        return 0 - self  # type: ignore[operator]

    def __abs__(self) -> Any:
        return self if self >= 0 else -self  # type: ignore[operator]

    def _own(self, other: Any) -> Any:
        """Another number, without its expression where that is of another trace."""
        return _plain(other) if isinstance(other, _Traced) and other.trace is not self.trace else other

    def fixed(self) -> Any:
        """The number, which is thereby decided."""
        value = _plain(self)
        self.trace.require(f"{self.name} == {value!r}")
        return value


class Size(_Traced, int):
    """An integer with its expression."""

    def __new__(cls, value: int, trace: Trace, name: str) -> Size:
        size = int.__new__(cls, value)
        size.trace, size.name = trace, name
        return size

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __lshift__(self, other: Any) -> Any:
        return self * (1 << other)

    def __rshift__(self, other: Any) -> Any:
        return self // (1 << other)

    def bit_length(self) -> int:
        bits = plain(self).bit_length()
        assert abs(self) < 1 << bits
        assert not bits or abs(self) >= 1 << bits - 1
        return bits


class Real(_Traced, float):
    """A float with its expression, computed from sizes."""

    def __new__(cls, value: float, trace: Trace, name: str) -> Real:
        real = float.__new__(cls, value)
        real.trace, real.name = trace, name
        return real

    def is_integer(self) -> bool:
        return False  # it is like no other number, and need not be told from the integer

    def __int__(self) -> int:
        number = int(_plain(self))
        self.trace.require(f"int({self.name}) == {number}")
        return number


def _plain(x: Any) -> Any:
    """The number without its expression."""
    return plain(x) if isinstance(x, int) else float.__float__(x)


def _text(x: Any) -> str:
    return x.name if isinstance(x, _Traced) else f"({x!r})" if x < 0 else repr(x)


# Where one side is such an integer, the other is the result: the left one in the last two, either in the first.
_NEUTRAL: dict[str, int] = {"+": 0, "*": 1, "-": 0, "//": 1}
_EITHER = "+*"


def _arithmetic(symbol: str, function: Callable[[Any, Any], Any], turned: bool) -> Callable[..., Any]:
    neutral = _NEUTRAL.get(symbol)

    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        other = self._own(other)
        a, b = (other, self) if turned else (self, other)
        value = function(_plain(a), _plain(b))
        trace = self.trace
        if not trace.open or value != value or value in _ENDLESS:
            self.trace.require(f"{self.name} == {_plain(self)!r}")
            return value
        if type(value) is int:
            if type(b) is int and b == neutral:
                return a
            if type(a) is int and a == neutral and symbol in _EITHER:
                return b
            if symbol == "*" and (_is_zero(a) or _is_zero(b)):
                return 0
        left, right = _text(a), _text(b)
        if symbol in _EITHER and left > right:
            left, right = right, left
        return trace.let(value, f"{left} {symbol} {right}")

    return method


_ENDLESS = (float("inf"), float("-inf"))


def _is_zero(x: Any) -> bool:
    return type(x) is int and x == 0


def _comparison(symbol: str, opposite: str, function: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        other = self._own(other)
        holds = function(_plain(self), _plain(other))
        if self.trace.open and not (isinstance(other, _Traced) and other.name == self.name):
            if other != other or other in _ENDLESS:
                return holds
            self.trace.require(f"{self.name} {symbol if holds else opposite} {_text(other)}")
        return holds

    return method


def _fixing(name: str) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any) -> Any:
        return getattr(self.fixed(), name)(*arguments)

    return method


_OPERATORS = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod", "/": "truediv"}
_COMPARISONS = {
    "==": ("eq", "!="),
    "!=": ("ne", "=="),
    "<": ("lt", ">="),
    ">=": ("ge", "<"),
    ">": ("gt", "<="),
    "<=": ("le", ">"),
}
_LOOKS = """
    int float trunc floor ceil round str repr format index invert pow rpow and rand or ror xor rxor rlshift rrshift
"""
for _kind in (Size, Real):
    for _symbol, _name in _OPERATORS.items():
        _function = getattr(operator, _name)
        setattr(_kind, f"__{_name}__", _arithmetic(_symbol, _function, turned=False))
        setattr(_kind, f"__r{_name}__", _arithmetic(_symbol, _function, turned=True))
    for _symbol, (_name, _opposite) in _COMPARISONS.items():
        setattr(_kind, f"__{_name}__", _comparison(_symbol, _opposite, getattr(operator, _name)))
    for _name in (
        *(f"__{name}__" for name in _LOOKS.split()),
        "bit_count",
        "to_bytes",
        "as_integer_ratio",
        "is_integer",
        "hex",
    ):
        if hasattr(_kind, _name) and _name not in vars(_kind):
            setattr(_kind, _name, _fixing(_name))
