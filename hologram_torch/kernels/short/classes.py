"""Classes of calls: structures (quick.py) with the sizes left open; see hologram/runtime/launches/shape_classes.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hologram.foundation.sizes import Size, Trace
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram.runtime.launches.shape_classes import Form, form_of, lifted
from hologram.runtime.launches.validation import cache_key
from hologram.runtime.memory.allocation import BufferSpec
from hologram.runtime.memory.ownership import over_borrowed_block
from hologram.runtime.memory.view import LARGE, LINE
from hologram_torch.kernels.kernel import Kernel
from hologram_torch.kernels.plain import Plain
from hologram_torch.kernels.short.learnt import Arguments
from hologram_torch.tensors.memory import hologram_tensor


class Class:
    """The class of a call, and the sizes that it leaves open."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.key: list[Any] = []
        self.sizes: dict[int, int] = {}  # their numbers, by value
        self.symbols: list[Size] = []  # of the trace that it was lifted for
        self.tensors: list[tuple[torch.Tensor, Form, tuple[int, ...]]] = []  # with what its form leaves open

    def take(self, names: Sequence[str], given: Sequence[Any], told: bool) -> None:
        """Adds arguments of these names; see quick.take."""
        key, sizes = self.key, self.sizes
        for name, x in zip(names, given, strict=False):
            kind = type(x)
            if isinstance(x, torch.Tensor):
                engine = x.untyped_storage().payload.executor  # pyright: ignore[reportAttributeAccessIssue]
                form, numbers = form_of(tuple(x.shape), x.stride())
                offset = x.storage_offset()
                behind = offset and offset * x.itemsize % engine.limits.binding_alignment
                key += (engine, x.dtype, behind, form)
                for n in numbers:
                    key.append(sizes.setdefault(n, len(sizes)))
                self.tensors.append((x, form, numbers))
            elif kind is float:
                key.append(kind if told else (kind, cache_key(x)))
            elif kind is list or kind is tuple:
                key.append((kind, len(x)))
                self.take([name] * len(x), x, told)
            elif kind is int and x > 1 and name in self.kernel.sizes:
                key += (kind, (sizes.setdefault(x, len(sizes)),))
            else:
                key += (kind, x)

    def lifted(self, trace: Trace) -> list[Tensor]:
        """The tensors with sizes of a trace, in the same memory."""
        self.symbols = [trace.symbol(n) for n in self.sizes]
        return [self._lifted(*each) for each in self.tensors]

    def _lifted(self, x: torch.Tensor, form: Form, numbers: tuple[int, ...]) -> Tensor:
        tensor = hologram_tensor(x)
        buffer: Any = tensor.buffer
        shape, strides = lifted(form, iter([self.symbols[self.sizes[n]] for n in numbers]))
        layout = Layout(tensor.layout.dtype, shape, strides, tensor.layout.offset)
        return Tensor(over_borrowed_block(buffer, BufferSpec((layout.span[1],), layout.dtype)), layout)

    def with_sizes(self, name: str, x: Any) -> Any:
        """An argument, with those sizes where it is some."""
        if name not in self.kernel.sizes:
            return x
        if type(x) is list or type(x) is tuple:
            return type(x)(self.with_sizes(name, item) for item in x)
        return self.symbols[self.sizes[x]] if type(x) is int and x in self.sizes else x


def class_of(
    kernel: Kernel | Plain, taken: Arguments, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Class | None:
    """The class of a call; None for what has none: no sizes, or several tensors in memory that may be written to."""
    if not isinstance(kernel, Kernel):
        return None
    blocks, places = taken.blocks, taken.places
    sources = list(map(id, taken.sources))
    apart = len(set(blocks)) == len(set(sources))
    if any(b.adopted for b in blocks) or not (apart or type(kernel) is Kernel):
        return None
    call = Class(kernel)
    call.take(kernel.names, args, taken.told)
    if kwargs:
        call.take(tuple(kwargs), tuple(kwargs.values()), taken.told)
    if not call.sizes:
        return None
    call.key += (torch.get_default_dtype(), taken.told, *kwargs, *map(sources.index, sources))
    laid = enumerate(zip(blocks, places, strict=True))
    call.key += [(k, place % LINE) for k, (block, place) in laid if block.nbytes >= LARGE]
    if not apart:
        first = [blocks.index(block) for block in blocks]
        call.key += [(k, place - places[k]) for k, place in zip(first, places, strict=True)]
    return call
