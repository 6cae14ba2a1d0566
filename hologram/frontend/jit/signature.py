"""What a call is told apart by: the structure of its arguments, the layouts of tensors, the values of all else.

A number's value counts where the trace asked for it (number.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from hologram.foundation.errors import ShapeError, TraceError
from hologram.foundation.frozen import frozen
from hologram.frontend.default import default_executor
from hologram.frontend.jit.number import KINDS, TracedNumber
from hologram.frontend.jit.traced import Traced
from hologram.frontend.tensor import Tensor, as_tensor, constant
from hologram.frontend.tree import branches, fixed, leaves, mapped, ordered
from hologram.runtime.dispatch import Dispatch, tracing
from hologram.runtime.engine import Engine
from hologram.runtime.launches.validation import cache_key
from hologram.runtime.memory.buffer import Buffer

LEAVES = (Tensor, Buffer, np.ndarray)  # tensors, and what becomes one where one stands beside it
FIXED = frozenset({str, bool, type(None)})  # what tells itself apart
layout_of = attrgetter("layout")


@frozen(eq=False)
class Call:
    """The arguments of a call: tensors and numbers in order, and what tells it apart from others, hashable."""

    executor: Any
    tensors: list[Tensor]
    numbers: list[Any]
    signature: tuple[Any, ...]
    traced: bool  # whether the call is made while another function is traced


def call_of(who: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """Takes arguments apart; raises TraceError where what is no tensor cannot be hashed.

    Without a tensor the function runs on the default executor.
    """
    structure: list[Any] = [len(args)]
    tensors: list[Any] = []
    numbers: list[Any] = []
    for tree in args:
        kind: Any = type(tree)
        if kind is Tensor:  # as in _walk, without a call
            structure.append(kind)
            tensors.append(tree)
        elif kind in KINDS:
            structure.append(kind)
            numbers.append(tree)
        else:
            _walk(who, tree, structure, tensors, numbers)
    for name in sorted(kwargs) if kwargs else ():
        structure.append(name)
        _walk(who, kwargs[name], structure, tensors, numbers)
    executor = tensors[0].buffer.executor if tensors and type(tensors[0]) is Tensor else None
    for tensor in tensors:
        if type(tensor) is not Tensor or tensor.buffer.executor is not executor:
            executor, tensors = _united(who, tensors)
            break
    if not tensors:
        tracer = tracing()
        executor = default_executor() if tracer is None else tracer.executor
    if executor is None or (Dispatch.tracers and executor.tracer is not None):
        return Call(executor, tensors, [], (), traced=True)
    # Of plain tensors the layouts say it all: such a call is looked up without being taken apart.
    form = () if 0 < len(tensors) == len(args) == len(structure) - 1 else (tuple(structure),)
    return Call(executor, tensors, numbers, (executor, *form, *map(layout_of, tensors)), traced=False)


def _united(who: str, tensors: list[Any]) -> tuple[Any, list[Any]]:
    """The executor of all, and what is no tensor yet as one of it; None where one is traced."""
    if any(type(t) is Traced for t in tensors):
        return None, tensors
    executors = {t.executor for t in tensors if not isinstance(t, np.ndarray)}
    if not executors:
        executors = {default_executor()}  # arrays alone say nothing of where to run
    if len(executors) != 1:
        names = " and ".join(sorted(map(str, executors)))
        raise ShapeError(f"{who}: its tensors must belong to one executor, got {names}")
    (executor,) = executors
    if executor.tracer is not None:
        return executor, tensors
    return executor, [t if isinstance(t, Tensor) else _tensor(executor, t) for t in tensors]


def _tensor(executor: Engine, array: Any) -> Tensor:
    return as_tensor(array) if isinstance(array, Buffer) else constant(executor, array)


def _walk(who: str, tree: Any, structure: list[Any], tensors: list[Any], numbers: list[Any]) -> None:
    """Takes a tree apart; every branch begins with a kind, and what follows for each is of a known length."""
    kind: Any = type(tree)
    if kind is Tensor:
        structure.append(Tensor)
        tensors.append(tree)
    elif kind in KINDS:
        structure.append(kind)
        numbers.append(tree)
    elif kind is list or kind is tuple:
        structure += kind, len(tree)
        for branch in tree:
            _walk(who, branch, structure, tensors, numbers)
    elif kind is dict:
        structure += kind, len(tree)
        for key in ordered(tree):
            structure.append(key)
            _walk(who, tree[key], structure, tensors, numbers)
    elif kind in FIXED:
        structure += kind, tree
    elif isinstance(tree, LEAVES):
        structure.append(Tensor)
        tensors.append(tree)
    elif isinstance(tree, TracedNumber):
        numbers.append(tree)
    else:
        children = branches(tree)
        if children is None:
            if hasattr(kind, "__dlpack__"):
                raise TypeError(
                    f"{who}: {kind.__module__}.{kind.__name__} is another library's: hg.asarray(x) makes a Tensor"
                )
            structure += kind, _fixed(who, tree)
            return
        structure += kind, len(children), _fixed(who, fixed(tree))
        for key, branch in children.items():
            structure.append(key)
            _walk(who, branch, structure, tensors, numbers)


def _fixed(who: str, leaf: Any) -> Any:
    """What stands for a leaf that is neither a tensor nor a number."""
    kind = type(leaf).__name__
    if isinstance(leaf, Iterator):
        raise TraceError(f"{who}: an argument can be read only once: pass a list, got {kind}")
    try:
        hash(leaf)
    except TypeError as error:
        raise TraceError(
            f"{who}: an argument that is no tensor is part of what a trace depends on, so it must be hashable, "
            f"got {kind}"
        ) from error
    return cache_key(leaf)


def is_number(leaf: Any) -> bool:
    """Whether a leaf of the arguments is a number of each call."""
    return type(leaf) in KINDS or isinstance(leaf, TracedNumber)


def tensors_of(args: Sequence[Any], chosen: int) -> range:
    """Which of a call's tensors are those of a positional argument."""
    counts = [sum(isinstance(x, LEAVES) for x in leaves(tree)) for tree in args[: chosen + 1]]
    return range(sum(counts[:-1]), sum(counts))


def filled(
    args: Sequence[Any], kwargs: Mapping[str, Any], tensors: Sequence[Any], numbers: Sequence[Any]
) -> tuple[Any, Any]:
    """The arguments with others in the places of tensors and numbers."""
    rest, floats = iter(tensors), iter(numbers)

    def leaf(x: Any) -> Any:
        if is_number(x):
            return next(floats)
        return next(rest) if isinstance(x, LEAVES) else x

    positional = tuple(mapped(branch, leaf) for branch in args)
    return positional, {name: mapped(kwargs[name], leaf) for name in sorted(kwargs)}
