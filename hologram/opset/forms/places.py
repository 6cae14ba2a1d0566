"""Arguments of operations by place: in NumPy's order where NumPy has a function of the name, else the declaration's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hologram.opset.forms.further import FURTHER
from hologram.opset.forms.numpys import ALSO, REQUIRED, instead, theirs

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def places(name: str, operands: Sequence[str], attributes: Sequence[str]) -> tuple[str, ...]:
    """What an operation's arguments by place are, the operands first; names that it lacks are NumPy's."""
    given = theirs(name)
    own = (*operands, *attributes)
    if given is None or not operands:
        return own
    # What NumPy requires has no name in common with ours, what it defaults has.
    called = [
        own[k] if default is REQUIRED and k < len(own) else ALSO.get(n, n) if n not in own else n
        for k, (n, default) in enumerate(given.items())
    ]
    found = (*operands, *called[len(operands) :])
    return found if len(set(found)) == len(found) else own  # they have no more than the name in common


def named(operation: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
    """Operands by place, and all other arguments by name; TypeError for what the operation lacks."""
    count, who = len(operation.operands), operation.name
    rest, order = args[count:], operation.argument_order[count:]
    found = dict(kwargs)
    if len(rest) > len(order):
        most = count + len(order)
        raise TypeError(f"{who} takes at most {most} arguments by place, got {len(args)}{_hint(operation)}")
    for name, value in zip(order, rest, strict=False):
        if name in found:
            raise TypeError(f"{who} got two values for {name!r}")
        if name in ("dtype", "out") and isinstance(value, (bool, int, float, np.bool_)):
            numpy = "NumPy's " if name in (theirs(who) or ()) else ""
            meant = instead(value, operation.attributes) or _hint(operation)
            raise TypeError(f"{who}: {numpy}{name} stands at this place, got {value!r}{meant}")
        if name in operation.attributes or name in FURTHER:
            found[name] = value
        elif not _said(who, name, value):
            raise TypeError(
                f"{who} has no argument {name!r}, which is NumPy's at this place: got {value!r}{_hint(operation)}"
            )
    return args[:count], found


def together(
    who: str, order: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments by place, which have names in that order, beside those by name."""
    placed = dict(zip(order, args, strict=False))
    if len(args) > len(order) or not placed.keys().isdisjoint(kwargs):
        raise TypeError(
            f"{who} takes {', '.join(order)} here, each once, got {len(args)} and {', '.join(kwargs)}"
        )
    return {**placed, **kwargs}


def _said(function: str, name: str, value: Any) -> bool:
    """Whether NumPy's default is given, which is what is done anyway."""
    default = (theirs(function) or {}).get(name, REQUIRED)
    return value is default or (isinstance(value, (str, bool, int)) and value == default)


def _hint(operation: Any) -> str:
    by_name = [name for name in operation.attributes if name not in operation.argument_order]
    return f"; by name it takes {', '.join(by_name)}" if by_name else ""


def arranged(operation: Any, operands: tuple[Any, ...], given: Mapping[str, Any]) -> Arguments:
    """Operands and attributes in the declaration's order, with defaults; TypeError for what is lacking or unknown."""
    who, own = operation.name, operation.attributes
    placed = dict(zip(operation.operands, operands, strict=False))
    found = {**operation.defaults, **placed}
    for name, value in given.items():
        called = name if name in own or name in operation.operands else _own_name(operation, name)
        if called not in own and called not in operation.operands:
            names = ", ".join((*operation.operands, *own))
            raise TypeError(f"{who} has no argument {name!r}: it has {names}")
        if called in placed:
            raise TypeError(f"{who} got two values for {called!r}")
        if called in own and not settles(value):
            kind = type(value).__name__
            raise TypeError(f"{who}: {called} must be a number, a name or a sequence of them, got {kind}")
        placed[called] = found[called] = value
    if len(found) < len(own) + len(operation.operands):
        lacking = next(n for n in (*operation.operands, *own) if n not in found)
        raise TypeError(f"{who} needs the argument {lacking!r}")
    return tuple(found[n] for n in operation.operands), {n: found[n] for n in own}


def _own_name(operation: Any, name: str) -> str:
    """Our name of what NumPy calls so: what it requires stands at the same place."""
    given = theirs(operation.name) or {}
    if given.get(name) is REQUIRED:
        place = list(given).index(name)
        return operation.argument_order[place] if place < len(operation.argument_order) else name
    return ALSO.get(name, name)


def settles(value: Any) -> bool:
    """Whether it can be an attribute, which is part of what a launch is kept by."""
    return type(value).__hash__ is not None or type(value) is list
