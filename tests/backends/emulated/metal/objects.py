"""What every part of the stand-in for PyObjC's Metal needs: misuse, sizes, errors, pools, and descriptors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Misuse(AssertionError):
    """What no correct program does: Metal would crash, corrupt memory, leak, or do what was meant by luck."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Misuse(what)


class Size(NamedTuple):
    """MTLSize."""

    width: int
    height: int
    depth: int


class Error:
    """NSError."""

    def __init__(self, code: int, description: str) -> None:
        self._code, self._description = code, description

    def code(self) -> int:
        return self._code

    def localizedDescription(self) -> str:
        return self._description


class Pools(threading.local):
    """The autorelease pools that are open in a thread."""

    depth = 0


pools = Pools()


@contextmanager
def pool() -> Iterator[None]:
    """objc.autorelease_pool."""
    pools.depth += 1
    try:
        yield
    finally:
        pools.depth -= 1


def autoreleased(what: str) -> None:
    require(pools.depth > 0, f"{what} leaks: no autorelease pool is open in this thread")


class Plain:
    """An object that is made by alloc().init() and holds what its setters are given."""

    setters: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    @classmethod
    def alloc(cls) -> Any:
        return cls()

    def init(self) -> Any:
        return self

    def respondsToSelector_(self, name: str) -> bool:
        return name in self.setters

    def __getattr__(self, name: str) -> Any:
        if not name.endswith("_") or name[:-1] + ":" not in self.setters:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        return lambda value: self.values.__setitem__(name[3:-1], value)


class CompileOptions(Plain):
    """MTLCompileOptions of macOS 15."""

    setters = ("setLanguageVersion:", "setMathMode:", "setMathFloatingPointFunctions:", "setFastMathEnabled:")


class ComputePipelineDescriptor(Plain):
    """MTLComputePipelineDescriptor."""

    setters = ("setComputeFunction:", "setMaxTotalThreadsPerThreadgroup:")
