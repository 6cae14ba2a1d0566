"""The tile `order_rows`: the stable order of rows of keys, as passes of compiled code (radix.py)."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from hologram.backends.cpu.image import ADDRESS, Patch, Piece, Step
from hologram.backends.cpu.kernel import Host, bound
from hologram.backends.cpu.sorting import radix
from hologram.compiled.machine_code.engine import Code, Engine
from hologram.compiled.machine_code.objects import kept_code
from hologram.foundation.dtypes import DType, Number
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding, Kernel, Launch, Span
from hologram.machine.plan import Tile

_ELEMENT_NS = 3.0  # of a pass, estimated
_SHARED_NS = 12_000  # of a pass that is worth several threads
_LONG_ROW = 8192  # elements from which wider digits, and so fewer passes, pay
KEYS, ORDER, PAIRS = range(3)  # the tile's buffers


@functools.lru_cache(maxsize=2)
def _code(engine: Engine, key: DType) -> Code:
    text = radix.text(key)
    return kept_code(engine, "radix", text, lambda: (text, radix.functions()))


@frozen
class OrderKernel(Kernel):
    """The tile on the CPU: by compiled code, or where there is no compiler by NumPy."""

    tile: Tile
    host: Host | None

    def bind(self, bindings: Sequence[Binding], scalars: Sequence[Number], grid: Sequence[int]) -> Launch:
        if self.host is not None:
            return bound(self.pieces, bindings, scalars, grid, self.host)
        arrays = [
            b.memory.bytes[b.offset : b.offset + b.nbytes].view(dtype.numpy)
            for (_, dtype, _), b in zip(self.tile.buffers, bindings, strict=True)
        ]
        rows, n = (int(s) for s in scalars[:2])

        def launch() -> None:
            keys = arrays[KEYS][: rows * n].reshape(rows, n)
            arrays[ORDER][: rows * n].reshape(rows, n)[...] = np.argsort(keys, axis=1, kind="stable")

        return launch

    def pieces(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> list[Piece]:
        """The steps of a launch; operand k is argument number k."""
        assert self.host is not None
        rows, n, first, last = (int(s) for s in scalars)
        if not rows * n:
            return []
        key = self.tile.buffers[KEYS][1]
        threads = self.host.threads if rows * n * _ELEMENT_NS > _SHARED_NS else 1
        passes = -(-(last - first) // (11 if n >= _LONG_ROW else 8))
        width = -(-(last - first) // passes)
        launch = _Launch(_code(self.host.engine(), key), rows, n, threads, width)
        half = rows * n * (1 if key.bits == 32 else 2) * 8  # bytes of all elements between passes
        places = [(KEYS, 0), *[(PAIRS, k % 2 * half) for k in range(passes - 1)], (ORDER, 0)]
        found: list[Piece] = []
        for k in range(passes):
            found += launch.passed((places[k], places[k + 1]), first + k * width, k == 0, k == passes - 1)
        return found

    def schedule(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> str:
        return "by digits"

    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        return radix.text(self.tile.buffers[KEYS][1])


Place = tuple[int, int]  # an argument, and bytes from where it begins


@frozen
class _Launch:
    """What the passes of a launch have in common."""

    code: Code
    rows: int
    n: int
    threads: int
    width: int  # bits of a digit

    def passed(self, places: tuple[Place, Place], shift: int, first: bool, last: bool) -> list[Piece]:
        """One pass."""
        if self.rows >= self.threads:
            each = -(-self.rows // (4 * self.threads if self.threads > 1 else 1))
            return [self._piece(places, shift, 1, [(radix.function("whole", first, last), self.rows, each)])]
        chunks = self.threads
        units = self.rows * chunks
        steps = [
            (radix.function("count", first), units, 1),
            (radix.function("scan"), self.rows, 1),
            (radix.function("move", first, last), units, 1),
        ]
        return [self._piece(places, shift, chunks, steps)]

    def _piece(
        self, places: tuple[Place, Place], shift: int, chunks: int, steps: Sequence[tuple[int, int, int]]
    ) -> Piece:
        numbers = {
            "n": self.n,
            "chunks": chunks,
            "length": -(-self.n // chunks),
            "shift": shift,
            "mask": (1 << self.width) - 1,
        }
        return Piece(
            tuple(Step(self.code.addresses[f], total, size) for f, total, size in steps),
            [numbers.get(word, 0) for word in radix.WORDS],
            tuple(Patch(word, ADDRESS, *place) for word, place in enumerate(places)),
            owner=self.code,
            room=self.rows * chunks * radix.MOST_DIGITS // 2 if chunks > 1 else 0,
            room_at=radix.WORDS.index("room"),
        )
