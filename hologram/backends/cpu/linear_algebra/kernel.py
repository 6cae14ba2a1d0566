"""Tiles that LAPACK computes, as kernels: calls of Python between launches of compiled code."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Sequence

from hologram.backends.cpu.linear_algebra import lapack
from hologram.foundation.dtypes import Number
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding, Kernel, Launch
from hologram.machine.plan import Tile


@frozen
class FactorKernel(Kernel):
    """A tile by LAPACK's function of its name; scalars are the sizes of its buffers, `x_0, x_1` those of x.

    The first axis of each is that of the stack.
    """

    tile: Tile

    def bind(self, bindings: Sequence[Binding], scalars: Sequence[Number], grid: Sequence[int]) -> Launch:
        shapes: dict[str, list[int]] = {b.name: [] for b in self.tile.buffers}
        for parameter, size in zip(self.tile.scalars, scalars, strict=True):
            shapes[parameter.name.rpartition("_")[0]].append(int(size))
        arrays = {}
        for parameter, b in zip(self.tile.buffers, bindings, strict=True):
            shape, dtype = shapes[parameter.name], parameter.dtype
            end = b.offset + math.prod(shape) * dtype.itemsize
            arrays[parameter.name] = b.memory.bytes[b.offset : end].view(dtype.numpy).reshape(shape)
        flags = {name.lower(): value for name, value in self.tile.constants}
        return functools.partial(lapack.FUNCTIONS[self.tile.stem], **arrays, **flags)

    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        return inspect.getsource(lapack.FUNCTIONS[self.tile.stem])
