"""Tiles that have code of their own on the CPU, and NumPy's where there is no compiler."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from hologram.backends.cpu.image import Piece
from hologram.backends.cpu.kernel import Host, bound
from hologram.foundation.dtypes import Number
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding, Kernel, Launch, Span
from hologram.machine.plan import Tile


@frozen
class WrittenKernel(Kernel):
    """A tile by compiled code, `pieces`, or `by_numpy` where there is no `host`."""

    tile: Tile
    host: Host | None

    def bind(self, bindings: Sequence[Binding], scalars: Sequence[Number], grid: Sequence[int]) -> Launch:
        if self.host is not None:
            return bound(self.pieces, bindings, scalars, grid, self.host)
        arrays = {
            p.name: b.memory.bytes[b.offset : b.offset + b.nbytes].view(p.dtype.numpy)
            for p, b in zip(self.tile.buffers, bindings, strict=True)
        }
        return functools.partial(self.by_numpy, arrays, self.numbers(scalars), tuple(grid))

    def pieces(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> list[Piece]:
        """The steps of a launch; operand k is argument number k."""
        raise NotImplementedError

    def by_numpy(self, arrays: dict[str, np.ndarray], number: dict[str, Any], grid: tuple[int, ...]) -> None:
        """What the steps compute, on the buffers and with the scalars by their names."""
        raise NotImplementedError

    def numbers(self, scalars: Sequence[Any]) -> dict[str, Any]:
        """The scalars by their names."""
        return {s.name: x for s, x in zip(self.tile.scalars, scalars, strict=True)}
