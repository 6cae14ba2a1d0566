"""Arguments of operations by place: in NumPy's order where NumPy has a function of the name, else the declaration's."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from hologram.opset.forms.further import FURTHER

# What NumPy calls an argument, as keywords of any operation that has it.
ALSO = {"ddof": "correction", "a_min": "min", "a_max": "max", "N": "n_rows", "M": "n_cols"}

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
_REQUIRED = inspect.Parameter.empty


@lru_cache(maxsize=1024)
def theirs(name: str) -> Mapping[str, Any] | None:
    """The parameters by place of NumPy's function of a name, with their defaults; None where NumPy does not tell."""
    function = getattr(np, name, None)
    if isinstance(function, np.ufunc):
        outputs = ["out"] if function.nout == 1 else [f"out{k + 1}" for k in range(function.nout)]
        return {f"x{k + 1}": _REQUIRED for k in range(function.nin)} | dict.fromkeys(outputs)
    try:
        parameters = inspect.signature(function).parameters.values() if callable(function) else ()
    except ValueError:  # a function of C that does not say what it takes
        return None
    if not parameters or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return {p.name: p.default for p in parameters if p.kind is not p.KEYWORD_ONLY}


def places(name: str, operands: Sequence[str], attributes: Sequence[str]) -> tuple[str, ...]:
    """What an operation's arguments by place are, the operands first; names that it lacks are NumPy's."""
    given = theirs(name)
    own = (*operands, *attributes)
    if given is None or not operands:
        return own
    # What NumPy requires has no name in common with ours, what it defaults has.
    called = [
        own[k] if default is _REQUIRED and k < len(own) else ALSO.get(n, n) if n not in own else n
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
            meant = _instead(operation, value)
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
    default = (theirs(function) or {}).get(name, _REQUIRED)
    return value is default or (isinstance(value, (str, bool, int)) and value == default)


def _instead(operation: Any, value: Any) -> str:
    """The argument that was meant by a flag or a number where there is a dtype or an output."""
    wanted = (
        "correction" if type(value) in (int, float) and "correction" in operation.attributes else "keepdims"
    )
    return f"; write {wanted}={value!r}" if wanted in operation.attributes else _hint(operation)


def _hint(operation: Any) -> str:
    by_name = [name for name in operation.attributes if name not in operation.argument_order]
    return f"; by name it takes {', '.join(by_name)}" if by_name else ""


def arranged(operation: Any, operands: tuple[Any, ...], given: Mapping[str, Any]) -> Arguments:
    """Operands and attributes in the declaration's order, with defaults; TypeError for what is lacking or unknown."""
    who, own = operation.name, operation.attributes
    placed = dict(zip(operation.operands, operands, strict=False))
    found = {**operation.defaults, **placed}
    for name, value in given.items():
        called = name if name in own or name in operation.operands else ALSO.get(name, name)
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


def settles(value: Any) -> bool:
    """Whether it can be an attribute, which is part of what a launch is kept by."""
    return type(value).__hash__ is not None or type(value) is list
