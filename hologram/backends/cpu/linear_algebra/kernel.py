"""Tiles that LAPACK computes, as kernels: calls of Python between launches of compiled code."""

from __future__ import annotations

import ctypes
import functools
import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hologram.backends.cpu.image import Piece
from hologram.backends.cpu.kernel import Host, bound
from hologram.backends.cpu.linear_algebra import compiled, lapack
from hologram.foundation.dtypes import Number
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding, Call, Kernel, Launch, Prepared, Span
from hologram.machine.plan import Given, Tile

Forms = tuple[tuple[str, tuple[int, ...], Any], ...]  # of the buffers: name, shape, NumPy's dtype


@frozen
class FactorKernel(Kernel):
    """A tile by LAPACK's function of its name, or by code of our own (compiled.py).

    Scalars are the sizes of its buffers, `x_0, x_1` those of x. The first axis of each is that of the stack.
    """

    tile: Tile
    host: Host | None = None

    def bind(self, bindings: Sequence[Binding], scalars: Sequence[Number], grid: Sequence[int]) -> Launch:
        if self.host is not None and self._compiled(scalars):
            return bound(self._pieces, bindings, scalars, grid, self.host)
        sizes = tuple(scalars)
        forms = self._known.get(sizes)
        if forms is None:
            forms = self._known[sizes] = self._forms(sizes)
        arrays = {
            name: np.ndarray(shape, dtype, b.memory.bytes, b.offset)
            for (name, shape, dtype), b in zip(forms, bindings, strict=True)
        }
        return functools.partial(self._function, **arrays)

    def pieces(
        self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]
    ) -> list[Piece] | None:
        """The steps of a launch; operand k is argument number k. None where LAPACK computes it."""
        return self._pieces(spans, scalars, grid) if self._compiled(scalars) else None

    def _compiled(self, scalars: Sequence[Number]) -> bool:
        told = any(type(x) is Given for x in scalars)
        if self.host is None or told:
            return False
        count: Any = scalars[0]  # which a trace of sizes remembers
        return compiled.taken(self.tile.stem, count, self._sizes(scalars))

    def _pieces(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> list[Piece]:
        assert self.host is not None
        buffers, sizes = self.tile.buffers, self._sizes(scalars)
        count: Any = scalars[0]  # which a trace of sizes remembers
        return compiled.pieces(
            self.host, self.tile.stem, buffers[0].dtype, count, sizes, self._upper, len(buffers)
        )

    @property
    def _upper(self) -> bool:
        return bool(dict(self.tile.constants).get("UPPER"))

    def _sizes(self, scalars: Sequence[Number]) -> dict[str, int]:
        """Rows and columns of the first matrix, columns of the second operand and of q or u, and rows of v."""
        known: dict[str, Any] = {p.name: x for p, x in zip(self.tile.scalars, scalars, strict=True)}
        first = self.tile.buffers[0].name
        m, n = known[f"{first}_1"], known.get(f"{first}_2", 0)
        width = known.get("q_2", known.get("u_2", 0))
        return {"m": m, "n": n, "width": width, "right": known.get("b_2", 0), "height": known.get("vh_1", 0)}

    def placed(self, call: Call) -> Prepared | None:
        """A call's launch that is told where its operands lie; None where it is told numbers, too."""
        if any(type(x) is Given for x in call.scalars):
            return None
        arrays = [
            (
                name,
                area.argument,
                area.first,
                shape,
                dtype,
                (ctypes.c_uint8 * max(area.nbytes, 1)).from_address,
            )
            for (name, shape, dtype), area in zip(self._forms(call.scalars), call.areas, strict=True)
        ]
        function = self._function

        def launch(arguments: list[Any]) -> None:
            function(
                **{
                    name: np.ndarray(shape, dtype, memory(arguments[argument] + first))
                    for name, argument, first, shape, dtype, memory in arrays
                }
            )

        return launch

    @cached_property
    def _known(self) -> dict[tuple[Number, ...], Forms]:
        """The buffers' forms, by the scalars."""
        return {}

    def _forms(self, scalars: Sequence[Number]) -> Forms:
        shapes: dict[str, list[int]] = {b.name: [] for b in self.tile.buffers}
        for parameter, size in zip(self.tile.scalars, scalars, strict=True):
            shapes[parameter.name.rpartition("_")[0]].append(int(size))
        return tuple((b.name, tuple(shapes[b.name]), b.dtype.numpy) for b in self.tile.buffers)

    @cached_property
    def _function(self) -> Callable[..., None]:
        flags = {name.lower(): value for name, value in self.tile.constants}
        return functools.partial(lapack.FUNCTIONS[self.tile.stem], **flags)

    def schedule(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> str:
        return "compiled code" if self._compiled(scalars) else "LAPACK"

    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        if self.host is not None and scalars and self._compiled(scalars):
            dtype = self.tile.buffers[0].dtype
            return compiled.source(self.host, self.tile.stem, dtype, self._sizes(scalars), self._upper)
        return inspect.getsource(lapack.FUNCTIONS[self.tile.stem])
