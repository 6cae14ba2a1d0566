"""Classes of calls: structures (quick.py) with the sizes left open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hologram.frontend.tensor import Tensor
from hologram.layout import Layout
from hologram.runtime.allocation import Kind
from hologram.runtime.succession import lent
from hologram.runtime.validation import exactly
from hologram.runtime.view import LARGE, LINE
from hologram.sizes import Size, Trace
from hologram_torch.kernels.kernel import Kernel
from hologram_torch.kernels.learnt import Arguments
from hologram_torch.kernels.plain import Plain
from hologram_torch.tensors.memory import hologram_tensor

# Of sizes or strides: numbers that are 0 or 1, `(k,)` for the size of that number, `(axis, own)` for a stride that
# steps over an axis.
Marks = list[Any]


class Class:
    """The class of a call, and the sizes that it leaves open."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.key: list[Any] = []
        self.sizes: dict[int, int] = {}  # their numbers, by value
        self.symbols: list[Size] = []  # of the trace that it was lifted for
        self.tensors: list[tuple[torch.Tensor, Marks, Marks]] = []  # each with those of its shape and strides

    def take(self, names: Sequence[str], given: Sequence[Any], told: bool) -> None:
        """Adds arguments of these names; see quick.take."""
        for name, x in zip(names, given, strict=False):
            kind = type(x)
            if isinstance(x, torch.Tensor):
                self._tensor(x)
            elif kind is float:
                self.key.append(kind if told else (kind, exactly(x)))
            elif kind is list or kind is tuple:
                self.key.append((kind, len(x)))
                self.take([name] * len(x), x, told)
            elif kind is int and name in self.kernel.sizes:
                self.key += (kind, self._mark(x))
            else:
                self.key += (kind, x)

    def _tensor(self, x: torch.Tensor) -> None:
        engine = x.untyped_storage().payload.executor  # pyright: ignore[reportAttributeAccessIssue]
        behind = x.storage_offset() * x.itemsize % engine.limits.binding_alignment
        shape, strides = tuple(x.shape), x.stride()
        sizes = [self._mark(n) for n in shape]
        steps = [self._step(k, shape, strides) for k in range(len(shape))]
        self.tensors.append((x, sizes, steps))
        order = sorted(range(len(shape)), key=strides.__getitem__)  # by which PyTorch lays results out
        self.key += (engine, x.dtype, behind, *sizes, *steps, *order)

    def _mark(self, n: int) -> Any:
        """A size in the key: itself where it is none beyond 1, else a number for it."""
        return n if n < 2 else (self.sizes.setdefault(n, len(self.sizes)),)

    def _step(self, axis: int, shape: Sequence[int], strides: Sequence[int]) -> Any:
        """A stride in the key: as a size, or the axis that it steps over."""
        step = strides[axis]
        if step > 1:
            for k in (*range(axis + 1, len(shape)), *range(axis)):
                if shape[k] > 1 and 0 < strides[k] and strides[k] * shape[k] == step:
                    return k, axis
        return self._mark(step)

    def lifted(self, trace: Trace) -> list[Tensor]:
        """The tensors with sizes of a trace, in the same memory."""
        self.symbols = [trace.symbol(n) for n in self.sizes]
        return [_lifted(x, sizes, steps, self.symbols) for x, sizes, steps in self.tensors]

    def with_sizes(self, name: str, x: Any) -> Any:
        """An argument, with those sizes where it is some."""
        if name not in self.kernel.sizes:
            return x
        if type(x) is list or type(x) is tuple:
            return type(x)(self.with_sizes(name, item) for item in x)
        return self.symbols[self.sizes[x]] if type(x) is int and x in self.sizes else x


def _lifted(x: torch.Tensor, sizes: Marks, steps: Marks, symbols: list[Size]) -> Tensor:
    def value(mark: Any) -> Any:
        return symbols[mark[0]] if type(mark) is tuple else mark

    def stride(mark: Any) -> Any:
        if type(mark) is not tuple or len(mark) == 1:
            return value(mark)
        over, _ = mark
        return stride(steps[over]) * value(sizes[over])

    tensor = hologram_tensor(x)
    buffer: Any = tensor.buffer
    layout = Layout(
        tensor.layout.dtype, tuple(map(value, sizes)), tuple(map(stride, steps)), tensor.layout.offset
    )
    return Tensor(lent(buffer, Kind((layout.span[1],), layout.dtype)), layout)


def class_of(
    kernel: Kernel | Plain, taken: Arguments, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Class | None:
    """The class of a call; None for what has none: no sizes, or several tensors in memory that may be written to."""
    if not isinstance(kernel, Kernel) or not kernel.has_classes:
        return None
    blocks, places = taken.blocks, taken.places
    sources = list(map(id, taken.sources))
    apart = len(set(blocks)) == len(set(sources))
    if any(b.adopted for b in blocks) or not (apart or type(kernel) is Kernel):
        return None
    found = Class(kernel)
    found.take(kernel.names, args, taken.told)
    found.take(tuple(kwargs), tuple(kwargs.values()), taken.told)
    if not found.sizes:
        return None
    found.key += (torch.get_default_dtype(), taken.told, *kwargs, *map(sources.index, sources))
    found.key += [place % LINE for block, place in zip(blocks, places, strict=True) if block.nbytes >= LARGE]
    if not apart:
        first = [blocks.index(block) for block in blocks]
        found.key += [(k, place - places[k]) for k, place in zip(first, places, strict=True)]
    return found
