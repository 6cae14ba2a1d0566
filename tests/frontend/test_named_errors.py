"""Errors about what was given name the function that was called, whatever it is made of."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hologram as hg

SPACES = {"": hg, "linalg.": hg.linalg, "fft.": hg.fft}
# These write files, or hand on what functions raise.
LEFT_OUT = re.compile("load|save|txt|file|export|jit|grad|vjp|jvp|vmap|kernel|executor|backend|distributed")


def _functions() -> Iterator[tuple[str, Any]]:
    for space, names in SPACES.items():
        for name in sorted(dir(names)):
            function = getattr(names, name)
            if callable(function) and not (isinstance(function, type) or LEFT_OUT.search(name)):
                yield space + name, function


def _names(space: Any, function: Any) -> set[str]:
    """Those that a function has: aliases are the same function."""
    own = {getattr(function, "name", ""), getattr(function, "__name__", "").rstrip("_")} - {""}
    return own | {n for n in dir(space) if getattr(space, n) is function}


def _wrong_calls(function: Any, x: Any) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return
    needed = [
        p
        for p in parameters.values()
        if p.default is p.empty and p.kind is not p.VAR_POSITIONAL and p.kind < 3
    ]
    given = [x] * len(needed)
    for k in range(len(given)):
        yield [*given[:k], "text", *given[k + 1 :]], {}
        yield [*given[:k], hg.ones((5, 7), device=x.executor), *given[k + 1 :]], {}
    wrong = {
        "axis": 7,
        "axes": (7,),
        "dim": 7,
        "dtype": "nonsense",
        "out": hg.ones((9, 9), device=x.executor),
    }
    for name in wrong.keys() & parameters.keys():
        if parameters[name].default is not inspect.Parameter.empty:
            yield given, {name: wrong[name]}


@pytest.mark.parametrize("space", SPACES)
def test_every_function_is_named(executor: hg.Executor, space: str) -> None:
    x = executor.tensor(np.ones((2, 3), np.float32))
    met, unnamed = 0, []
    for name, function in _functions():
        if name != space + name.rpartition(".")[2]:
            continue
        for args, kwargs in _wrong_calls(function, x):
            try:
                function(*args, **kwargs)
            except (hg.ShapeError, hg.UnsupportedDType, hg.linalg.LinAlgError) as error:
                met += 1
                if not any(re.search(rf"\b{n}\b", str(error)) for n in _names(SPACES[space], function)):
                    unnamed.append(f"{name}: {error}")
            except Exception:  # noqa: BLE001  (others are not about this)
                continue
    assert unnamed == []
    assert met > 20


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: hg.nanvar(x, axis=7), "nanvar: "),
        (lambda x: hg.nanstd(x, 7), "nanstd: "),
        (lambda x: hg.average(x, 7), "average: "),
        (lambda x: hg.ptp(x, 7), "ptp: "),
        (lambda x: hg.count_nonzero(x, axis=7), "count_nonzero: "),
        (lambda x: hg.jit(lambda v: hg.nanvar(v, axis=7))(x), "nanvar: "),
        (lambda x: hg.vmap(lambda v: hg.nanvar(v, axis=7))(x), "nanvar: "),
        (lambda x: hg.grad(lambda v: hg.nanvar(v, axis=7).sum())(x), "nanvar: "),
        (lambda x: hg.var(x, axis=7), "var: axis"),
        (lambda x: x.var(axis=7), "var: axis"),
        (lambda x: hg.linalg.cond(x.astype("f16")), "cond: linalg.svdvals: "),
    ],
)
def test_names(executor: hg.Executor, call: Any, text: str) -> None:
    x = executor.tensor(np.ones((2, 3), np.float32))
    with pytest.raises(hg.HologramError) as raised:
        call(x)
    assert str(raised.value).startswith(text)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
