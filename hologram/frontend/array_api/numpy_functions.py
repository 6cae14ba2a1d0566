"""NumPy's ufuncs and functions on Tensors: each is the function of hologram that NumPy has under the same name.

NumPy 2 has the array API's names beside its own (`np.acos is np.arccos`), so the pairs follow from the names; there is
no list of them. What has no counterpart, or is asked for what its counterpart lacks, raises TypeError: nothing is
computed on the host unseen.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from hologram import opset
from hologram.machine.strided import Strided
from hologram.opset.forms.further import FURTHER, into, only, taken
from hologram.opset.forms.numpys import ALSO

FACTS = {np.shape: "shape", np.ndim: "ndim", np.size: "size"}
# What a ufunc folds to, along one axis or running: the only names that do not follow.
REDUCING = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip
RUNNING = {"add": "cumsum", "multiply": "cumprod"}


@lru_cache(maxsize=1)
def counterparts() -> Mapping[Any, Callable[..., Any]]:
    """The functions of hologram by those of NumPy that are called the same."""
    namespace = sys.modules["hologram"]  # which stands above
    pairs = ((getattr(np, n, None), getattr(namespace, n)) for n in dir(namespace) if not n.startswith("_"))
    named = {a: b for a, b in pairs if callable(a) and callable(b) and not isinstance(b, type)}
    parts = ((np.linalg, namespace.linalg), (np.fft, namespace.fft))
    below = {
        getattr(theirs, n): getattr(ours, n)
        for theirs, ours in parts
        for n in ours.__all__
        if hasattr(theirs, n)
    }
    return below | named


def _refused(who: str, why: str) -> TypeError:
    return TypeError(f"{who} of a Tensor: {why}; np.asarray(tensor) copies it to the host")


def _into(result: Any, out: Any, who: str) -> Any:
    """The result, written to `out` if there is one."""
    target = only(out, who)
    return result if target is None else into(result, target, who)


def _settled(who: str, settings: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The arguments that an operation knows; TypeError for others, unless they say what is done anyway."""
    usual = {"casting": "same_kind", "where": True, "order": "K", "subok": True, "keepdims": False}
    for name, setting in settings.items():
        said = setting is None or setting is np._NoValue or setting is usual.get(name)
        if name not in known and not said:
            raise _refused(who, f"there is no argument {name}")
    return {n: s for n, s in settings.items() if n in known and s is not np._NoValue}


def of_ufunc(
    tensor: Any, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **settings: Any
) -> Any:
    """What NumPy calls for a ufunc that has a tensor among its operands or results."""
    who = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    folds = {"reduce": REDUCING, "accumulate": RUNNING}.get(method)
    name = "" if folds is None else folds.get(ufunc.__name__, "")
    operation: Any = counterparts().get(ufunc) if folds is None else opset.OPERATIONS.get(name)
    if operation is None or method not in ("__call__", "reduce", "accumulate", "outer"):
        raise _refused(who, "hologram has no counterpart")
    executor: Any = tensor.executor
    operands = [x.item() if isinstance(x, np.generic) else x for x in inputs]
    operands = [executor.tensor(x) if isinstance(x, (np.ndarray, list)) else x for x in operands]
    if folds is None:
        if settings.get("where", True) is not True or ufunc.nout > 1:
            settings["out"], out = out, None
        settings = _settled(who, settings, FURTHER if out is None else {})
    else:
        by_place = dict(zip(("axis", "dtype"), operands[1:], strict=False))
        operands, settings = (
            operands[:1],
            _settled(who, {"axis": 0} | by_place | settings, {*operation.attributes, *taken(operation)}),
        )
    if method == "outer":
        first, second = (x if isinstance(x, Strided) else executor.tensor(x) for x in operands)
        operands = [first.reshape(*first.shape, *(1,) * second.ndim), second]
    return _into(operation(*operands, **settings), out, who)


def of_function(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What NumPy calls for a function that has a tensor among its arguments."""
    who = f"{function.__module__}.{function.__name__}".replace("numpy", "np", 1)
    if function in FACTS and len(args) == 1 and not kwargs:
        return getattr(args[0], FACTS[function])
    counterpart = counterparts().get(function)
    if counterpart is None:
        raise _refused(who, "hologram has no counterpart")
    try:
        signature = inspect.signature(function)
    except ValueError:  # a function of C that does not say what it takes
        return counterpart(*args, **kwargs)
    given = signature.bind(*args, **kwargs)
    named = set(given.arguments)
    given.apply_defaults()
    out = given.arguments.pop("out", None)
    positional, rest = _arranged(who, signature, given.arguments, named, counterpart)
    return _into(counterpart(*positional, **rest), out, who)


def _arranged(
    who: str, signature: inspect.Signature, given: Mapping[str, Any], named: set[str], counterpart: Any
) -> tuple[list[Any], dict[str, Any]]:
    """A call's arguments as the counterpart takes them: what NumPy requires by place, what it defaults by name.

    NumPy's default is passed too: the counterpart may have another.
    """
    own = (getattr(counterpart, "signature", None) or inspect.signature(counterpart)).parameters
    further = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in own.values())
    known = {*own, *(FURTHER if further else taken(counterpart))}
    operands = len(getattr(counterpart, "operands", ()))
    positional: list[Any] = []
    rest: dict[str, Any] = {}
    for name, value in given.items():
        parameter, called = (
            signature.parameters[name],
            name if name in own else ALSO.get(name, name),
        )
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positional += value
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            rest |= value
        elif value is np._NoValue:
            continue
        elif called in known and parameter.default is not inspect.Parameter.empty:
            rest[called] = value
        elif parameter.default is inspect.Parameter.empty or (name in named and len(positional) < operands):
            positional.append(value)
        elif name in named and value is not parameter.default:
            raise _refused(who, f"there is no argument {name}")
    return positional, rest
