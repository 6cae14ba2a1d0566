"""What a call is told apart by: the structure of its arguments, the layouts of tensors, the values of all else.

A float's value counts where the trace asked for it (number.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hologram.errors import ShapeError, TraceError
from hologram.frontend.default import default_executor
from hologram.frontend.jit.number import TracedNumber
from hologram.frontend.jit.traced import Traced
from hologram.frontend.tensor import Tensor, as_tensor, constant
from hologram.frontend.tree import branches, mapped, ordered
from hologram.records import frozen
from hologram.runtime.buffer import Buffer
from hologram.runtime.engine import Engine
from hologram.runtime.validation import exactly

LEAVES = (Tensor, Buffer, np.ndarray)  # tensors, and what becomes one where one stands beside it


@frozen(eq=False)  # told apart by identity, at every call
class _Hole:
    """Where something stands among the arguments that is not the same at every call."""

    what: str

    def __repr__(self) -> str:
        return self.what


TENSOR, NUMBER = _Hole("a tensor"), _Hole("a float")


@frozen(eq=False)
class Call:
    """The arguments of a call: tensors and floats in order, and the structure they stand in, hashable."""

    tensors: list[Tensor]
    numbers: list[float]
    structure: Any
    firsts: tuple[int, ...]  # number of each positional argument's first tensor; then how many there are
    traced: bool  # whether the call is made while another function is traced


def call_of(who: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """Takes arguments apart; raises TraceError where no tensor is among them, TypeError for what cannot be hashed."""
    walk = _Walk(who)
    firsts = []
    structure = []
    for branch in args:
        firsts.append(len(walk.tensors))
        structure.append(walk.of(branch))
    firsts.append(len(walk.tensors))
    named = tuple((name, walk.of(kwargs[name])) for name in sorted(kwargs))
    kinds = set(map(type, walk.tensors))
    if Traced in kinds:
        return Call(walk.tensors, [], (), (), traced=True)
    executors = {t.executor for t in walk.tensors if not isinstance(t, np.ndarray)}
    if walk.tensors and not executors:
        executors = {default_executor()}  # arrays alone say nothing of where to run
    if len(executors) != 1:
        found = " and ".join(sorted(map(str, executors))) or "none"
        raise (ShapeError if executors else TraceError)(
            f"{who}: its tensors must belong to one executor, and there must be a tensor, got {found}"
        )
    (executor,) = executors
    if executor.tracer is not None:
        return Call(walk.tensors, [], (), (), traced=True)
    tensors = walk.tensors
    if kinds != {Tensor}:
        tensors = [t if isinstance(t, Tensor) else _tensor(executor, t) for t in tensors]
    return Call(tensors, walk.numbers, (tuple(structure), named), tuple(firsts), traced=False)


def _tensor(executor: Engine, array: Any) -> Tensor:
    return as_tensor(array) if isinstance(array, Buffer) else constant(executor, array)


def filled(
    args: Sequence[Any], kwargs: Mapping[str, Any], tensors: Sequence[Any], numbers: Sequence[Any]
) -> tuple[Any, Any]:
    """The arguments with others in the places of tensors and floats."""
    rest, floats = iter(tensors), iter(numbers)

    def leaf(found: Any) -> Any:
        if type(found) is float:
            return next(floats)
        return next(rest) if isinstance(found, LEAVES) else found

    positional = tuple(mapped(branch, leaf) for branch in args)
    return positional, {name: mapped(kwargs[name], leaf) for name in sorted(kwargs)}


def known_tree(tree: Any, tensors: list[Tensor]) -> Any:
    """What tells trees of nothing but tensors of an executor apart, quickly; None for all others.

    Appends the tensors in the order of a Call.
    """
    kind = type(tree)
    if kind is Tensor:
        tensors.append(tree)
        return (tree.buffer.executor, tree.layout)
    if kind is dict:
        keys = ordered(tree)
        parts = [known_tree(tree[key], tensors) for key in keys]
        return None if None in parts else (kind, *keys, *parts)
    if kind is tuple or kind is list:
        parts = [known_tree(branch, tensors) for branch in tree]
        return None if None in parts else (kind, *parts)
    return None


class _Walk:
    """Takes trees apart."""

    def __init__(self, who: str) -> None:
        self.who = who
        self.tensors: list[Any] = []
        self.numbers: list[float] = []

    def of(self, tree: Any) -> Any:
        """The structure of a tree, with TENSOR and NUMBER for every tensor and float."""
        kind: Any = type(tree)
        if kind is Tensor or isinstance(tree, LEAVES):
            self.tensors.append(tree)
            return TENSOR
        if kind is float or kind is TracedNumber:
            self.numbers.append(tree)
            return NUMBER
        if kind is list or kind is tuple:  # the common case, again and again
            return (kind, *[self.of(branch) for branch in tree])
        if kind is dict:
            return (kind, *[(key, self.of(tree[key])) for key in ordered(tree)])
        found = branches(tree)
        if found is not None:
            return (kind, *[(key, self.of(branch)) for key, branch in found.items()])
        if isinstance(tree, Iterator):
            raise TraceError(
                f"{self.who}: an argument can be read only once: pass a list, got {kind.__name__}"
            )
        try:
            hash(tree)
        except TypeError as error:
            raise TraceError(
                f"{self.who}: an argument that is no tensor is part of what a trace depends on, so it must be "
                f"hashable, got {kind.__name__}"
            ) from error
        return (kind, exactly(tree))
