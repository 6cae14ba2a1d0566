"""Small vectors: values of a kernel with two, three or four parts. Kernels have their methods' own source inlined."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hologram.foundation.errors import KernelError


def _by_parts(apply: Callable[[Any, Any], Any], *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def operate(self: Any, other: Any) -> Any:
        others = other if isinstance(other, Vector) else [other] * len(self)
        if isinstance(other, Vector) and type(other) is not type(self):
            raise KernelError(f"{type(self).__name__} with {type(other).__name__}: both must be of one kind")
        pairs = zip(others, self, strict=True) if swapped else zip(self, others, strict=True)
        return type(self)(*[apply(a, b) for a, b in pairs])

    return operate


class Vector:
    """What vectors have in common: arithmetic by parts, also with one number for all of them."""

    NAMES: tuple[str, ...] = ()

    def __init__(self, *parts: Any) -> None:
        flat = [x for part in parts for x in (part if isinstance(part, Vector) else (part,))]
        flat = flat * len(self.NAMES) if len(flat) == 1 else flat
        if len(flat) != len(self.NAMES):
            raise KernelError(f"{type(self).__name__}: takes 1 or {len(self.NAMES)} numbers, got {len(flat)}")
        for name, part in zip(self.NAMES, flat, strict=True):
            setattr(self, name, part)

    def __len__(self) -> int:
        return len(self.NAMES)

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in self.NAMES)

    def __getitem__(self, k: int) -> Any:
        return getattr(self, self.NAMES[k])

    def __setitem__(self, k: int, value: Any) -> None:
        setattr(self, self.NAMES[k], value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self))})"

    def __getattr__(self, name: str) -> Any:
        """`v.xy` and its like: some of the parts, in any order, as a vector."""
        kind = {2: vec2, 3: vec3, 4: vec4}.get(len(name))
        if kind is None or not set(name) <= set(self.NAMES):
            raise AttributeError(f"{type(self).__name__} has no {name}")
        return kind(*[getattr(self, letter) for letter in name])

    def __neg__(self) -> Any:
        return type(self)(*[-x for x in self])

    __add__, __radd__ = _by_parts(operator.add), _by_parts(operator.add, swapped=True)
    __sub__, __rsub__ = _by_parts(operator.sub), _by_parts(operator.sub, swapped=True)
    __mul__, __rmul__ = _by_parts(operator.mul), _by_parts(operator.mul, swapped=True)
    __truediv__, __rtruediv__ = _by_parts(operator.truediv), _by_parts(operator.truediv, swapped=True)
    __floordiv__, __mod__, __pow__ = map(_by_parts, (operator.floordiv, operator.mod, operator.pow))

    def dot(self, other: Any) -> Any:
        """The sum of the products of the parts."""
        return sum(self * other)

    def length(self) -> Any:
        """The square root of the sum of squares."""
        return np.sqrt(self.dot(self))

    def normalized(self) -> Any:
        """The vector of length 1 that points the same way."""
        return self * (1.0 / self.length())


class vec2(Vector):
    """Two numbers, x and y: `hg.vec2(1.0, 2.0)`, or one number for both."""

    NAMES = ("x", "y")
    x: Any
    y: Any


class vec3(Vector):
    """Three numbers, x, y and z: `hg.vec3(1.0, 2.0, 3.0)`, `hg.vec3(xy, 3.0)`, or one number for all."""

    NAMES = ("x", "y", "z")
    x: Any
    y: Any
    z: Any

    def cross(self, other: Any) -> Any:
        """The vector at right angles to both."""
        return vec3(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )


class vec4(Vector):
    """Four numbers, x, y, z and w."""

    NAMES = ("x", "y", "z", "w")
    x: Any
    y: Any
    z: Any
    w: Any
