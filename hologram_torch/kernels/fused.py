"""Kernels made of several operations, which run as few launches: each is compiled once for a signature.

Where a larger function is traced already, theirs are operations of it like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

import hologram as hg
from hologram.foundation.bounded_caches import FIFOCache
from hologram.foundation.dtypes import DType
from hologram.frontend.tensor import Tensor
from hologram.runtime.dispatch import deferred
from hologram.runtime.launches.recording import Unrepeatable
from hologram.runtime.launches.validation import cache_key
from hologram_torch.kernels.operators import known
from hologram_torch.reach import reach
from hologram_torch.tensors.dtypes import torch_dtype
from hologram_torch.tensors.memory import hologram_tensor, torch_tensor


def _decompositions() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import decomposition_table

    return dict(decomposition_table)


LACKING_REMEDY = "and hologram has no kernel for it: compute it on x.cpu()"
DECOMPOSITIONS = reach(
    "decompositions",
    "torch._decomp.decomposition_table",
    "operators that PyTorch itself writes in terms of others are refused by name",
    _decompositions,
    {},
)
MAX_KEPT = 1024  # compiled forms of one function, by what is no tensor among its arguments


class Fused:
    """A function of hologram's tensors, compiled; numbers and settings are part of what it is compiled for.

    Where numbers are `told`, code is compiled for the first few values of a float. After that a float is passed at
    each call, and a new value compiles nothing.
    """

    def __init__(self, function: Callable[..., Any], told: bool = False) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", "fused")
        self._told = told
        self._kept: FIFOCache[Any, Callable[..., Any]] = FIFOCache(MAX_KEPT)
        self._met: FIFOCache[Any, int] = FIFOCache(MAX_KEPT)  # how many values were compiled for

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if deferred():
            return self.function(*args, **kwargs)
        tensors: list[Tensor] = []
        floats: list[float] = []
        key = self._key((args, kwargs) if kwargs else args, tensors, floats)
        if not tensors:
            return self.function(*args, **kwargs)
        valued = (key, *map(cache_key, floats)) if floats else key
        compiled = self._kept.get(valued)
        if compiled is not None:
            return compiled(*tensors)
        met = self._met.get(key) or 0
        if floats and met >= FEW_VALUES:
            compiled = self._kept.get(key) or self._kept.keep(
                key, self._compiled(args, kwargs, len(tensors), told=True)
            )
            return compiled(*tensors, *floats)
        if floats:
            self._met.keep(key, met + 1)
        return self._kept.keep(valued, self._compiled(args, kwargs, len(tensors)))(*tensors)

    def _compiled(self, args: Any, kwargs: Any, tensors: int, told: bool = False) -> Callable[..., Any]:
        """The function of the tensors of such arguments, and of the numbers behind them that are told."""

        def mark(x: Any) -> Any:
            return TENSOR if isinstance(x, Tensor) else NUMBER if told and type(x) is float else x

        form = pytree.tree_map(mark, (args, kwargs))

        def whole(*given: Any) -> Any:
            rest = {TENSOR: iter(given[:tensors]), NUMBER: iter(given[tensors:])}
            args, kwargs = pytree.tree_map(lambda x: next(rest[x]) if x is TENSOR or x is NUMBER else x, form)
            return self.function(*args, **kwargs)

        whole.__name__ = self.__name__
        return hg.jit(whole)

    def _key(self, x: Any, tensors: list[Tensor], floats: list[float]) -> Any:
        """The key of a call without its tensors and told floats; puts these into the lists."""
        if isinstance(x, Tensor):
            tensors.append(x)
            return TENSOR
        kind = type(x)
        if kind is float and self._told:
            floats.append(x)
            return NUMBER
        if kind is tuple or kind is list:
            return (kind, *[self._key(item, tensors, floats) for item in x])
        if kind is dict:
            return (kind, *x, *[self._key(item, tensors, floats) for item in x.values()])
        return (kind, cache_key(x))


FEW_VALUES = 2  # of a number, that code is compiled for
TENSOR, NUMBER = object(), object()  # where a call gives one


def fused(function: Callable[..., Any]) -> Fused:
    """Compiles a kernel's function."""
    return Fused(function)


def told(function: Callable[..., Any]) -> Fused:
    """Compiles a kernel's function whose floats are numbers of each call."""
    return Fused(function, told=True)


def pulled(
    function: Callable[..., Any], operands: Sequence[Any], wanted: Sequence[bool], cotangent: Any
) -> list[Any]:
    """The cotangents of a function's operands; None of those that are not wanted."""
    chosen = [x for x, want in zip(operands, wanted, strict=True) if want]

    def forward(*given: Tensor) -> Tensor:
        rest = iter(given)
        return function(*(next(rest) if want else x for x, want in zip(operands, wanted, strict=True)))

    cotangents = iter(hg.vjp(forward, *chosen)[1](cotangent) if chosen else ())
    return [next(cotangents) if want else None for want in wanted]


def in_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of PyTorch's tensors as one of hologram's."""

    def whole(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = pytree.tree_map(_theirs, (args, kwargs))
        return pytree.tree_map(_ours, function(*args, **kwargs))

    whole.__name__ = getattr(function, "__name__", "decomposed")
    return whole


def decomposition(name: str) -> Fused:
    """PyTorch's own decomposition of an operator into others, compiled; refuses calls where this PyTorch has none."""

    def lacking(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"hologram, {name}: this PyTorch does not compose it, {LACKING_REMEDY}")

    return Fused(in_torch(DECOMPOSITIONS.get(known(name), lacking)))


def _theirs(x: Any) -> Any:
    if isinstance(x, Tensor):
        if any(type(n) is not int for n in x.shape):  # PyTorch has no sizes that remember
            raise Unrepeatable
        return torch_tensor(x)
    return torch_dtype(x) if isinstance(x, DType) else x


def _ours(x: Any) -> Any:
    return hologram_tensor(x) if isinstance(x, torch.Tensor) else x
