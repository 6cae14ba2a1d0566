"""`frozen`: dataclasses whose methods are shared, where the standard library compiles six for each class.

Compiling them is 0.6 ms a class, and the first result of a process takes over a hundred classes: a third of its time
was this (docs/design/startup.md). Here one method, `__init__`, is compiled, and the others are closures over the
names of the fields. `dataclasses.fields`, `replace` and `asdict` work as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform  # typing's own from Python 3.11 on
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        return lambda function: function


C = TypeVar("C", bound=type)


@overload
def frozen(cls: C, /) -> C: ...
@overload
def frozen(*, eq: bool = True, repr: bool = True, slots: bool = False) -> Callable[[C], C]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: Any = None, /, *, eq: bool = True, repr: bool = True, slots: bool = False) -> Any:
    """As `dataclasses.dataclass(frozen=True)`; told apart by identity, and hashed by it, where `eq` is False."""
    if cls is None:
        return partial(_made, eq=eq, repr=repr, slots=slots)
    return _made(cls, eq, repr, slots)


def _made(cls: Any, eq: bool, repr: bool, slots: bool) -> Any:
    cls = dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    own = fields(cls)
    methods: dict[str, Any] = {
        "__init__": _initializer(cls, own),
        "__setattr__": _set,
        "__delattr__": _delete,
    }
    if repr:
        methods["__repr__"] = _representation([f.name for f in own if f.repr])
    if eq:
        methods |= _comparisons(_values([f.name for f in own if f.compare]))
    if slots:
        methods |= _state([f.name for f in own])
    for name, method in methods.items():
        if cls.__dict__.get(name) is None:  # a class that defines __eq__ has None for __hash__
            setattr(cls, name, method)
    return cls


def _initializer(cls: type, own: tuple[Field[Any], ...]) -> Callable[..., None]:
    """Compiles the class's own `__init__` when the first object is made, and is replaced by it."""

    def initialize(self: Any, *arguments: Any, **named: Any) -> None:
        method = _compiled(cls, own)
        type.__setattr__(cls, "__init__", method)
        method(self, *arguments, **named)

    return initialize


def _compiled(cls: type, own: tuple[Field[Any], ...]) -> Callable[..., None]:
    """An `__init__` whose parameters are the fields."""
    known: dict[str, Any] = {"_store": object.__setattr__, "_missing": MISSING}
    parameters, lines = ["self"], []
    for f in own:
        value = f.name
        if f.default is not MISSING:
            known[f"_{f.name}"] = f.default
            parameters.append(f"{f.name}=_{f.name}")
        elif f.default_factory is not MISSING:
            known[f"_{f.name}"] = f.default_factory
            parameters.append(f"{f.name}=_missing")
            value = f"_{f.name}() if {f.name} is _missing else {f.name}"
        else:
            parameters.append(f.name)
        if not f.init:
            parameters.pop()
            value = f"_{f.name}"
        lines.append(f" _store(self, {f.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    exec("def __init__(" + ", ".join(parameters) + "):\n" + "\n".join(lines or [" pass"]), known)
    return known["__init__"]


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Of an object, the values of its fields."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _representation(names: list[str]) -> Callable[[Any], str]:
    def represent(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return represent


def _comparisons(values: Callable[[Any], tuple[Any, ...]]) -> dict[str, Any]:
    def equal(self: Any, other: object) -> bool:
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    def hashed(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": equal, "__hash__": hashed}


def _state(names: list[str]) -> dict[str, Any]:
    """Copies and unpickled objects with slots have no dictionary to be put into, and assignment is refused."""

    def state_of(self: Any) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in names)

    def restore(self: Any, state: tuple[Any, ...]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return {"__getstate__": state_of, "__setstate__": restore}


def _set(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
