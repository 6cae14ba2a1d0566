"""What NumPy's functions take: names of arguments by place, and what is meant by one at another's place."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

# What NumPy calls an argument, as keywords of any operation that has it.
ALSO = {"ddof": "correction", "a_min": "min", "a_max": "max", "N": "n_rows", "M": "n_cols"}
REQUIRED = inspect.Parameter.empty


@lru_cache(maxsize=1024)
def theirs(name: str) -> Mapping[str, Any] | None:
    """The parameters by place of NumPy's function of a name, with their defaults; None where NumPy does not tell."""
    function = getattr(np, name, None)
    if isinstance(function, np.ufunc):
        outputs = ["out"] if function.nout == 1 else [f"out{k + 1}" for k in range(function.nout)]
        return {f"x{k + 1}": REQUIRED for k in range(function.nin)} | dict.fromkeys(outputs)
    parameters = _parameters(name)
    if not parameters or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return {p.name: p.default for p in parameters if p.kind is not p.KEYWORD_ONLY}


def _parameters(name: str) -> Collection[inspect.Parameter]:
    """All parameters of NumPy's function of a name; none where a function of C does not say what it takes."""
    function = getattr(np, name, None)
    try:
        return inspect.signature(function).parameters.values() if callable(function) else ()
    except ValueError:
        return ()


def taken_by(name: str) -> Collection[str]:
    """The names of all arguments of NumPy's function of a name, those by keyword alone as well."""
    return [p.name for p in _parameters(name)]


def instead(value: Any, takes: Collection[str]) -> str:
    """What to write for a flag or a number where there is a dtype or an output, of the arguments that there are."""
    wanted = ("correction", "ddof", "keepdims") if type(value) in (int, float) else ("keepdims",)
    found = next((name for name in wanted if name in takes), None)
    return "" if found is None else f"; write {found}={value!r}"
