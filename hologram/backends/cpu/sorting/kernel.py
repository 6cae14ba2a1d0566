"""The tile `order_rows`: rows of keys put in order, or their stable order, as passes of compiled code (radix.py)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hologram.backends.cpu.image import ADDRESS, Patch, Piece, Step
from hologram.backends.cpu.kernel import Host, bound, pack_scalar
from hologram.backends.cpu.sorting import radix
from hologram.compiled.machine_code.engine import Code, Engine
from hologram.compiled.machine_code.objects import kept_code
from hologram.foundation.dtypes import DType, Number, u64
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding, Kernel, Launch, Span
from hologram.machine.plan import Tile

_ELEMENT_NS = 3.0  # of a pass, estimated
_SHARED_NS = 12_000  # of a pass that is worth several threads
_DIGIT_BITS = 8  # 11 take a pass less, but write to more pages than are at hand: 11.5 and 9.4 ms for 1M
KEYS, ORDER, SPARE = range(3)  # the tile's buffers


@functools.lru_cache(maxsize=4)
def _code(engine: Engine, key: DType, positions: bool) -> Code:
    text = radix.text(key, positions)
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
            b.memory.bytes[b.offset : b.offset + b.nbytes].view(p.dtype.numpy)
            for p, b in zip(self.tile.buffers, bindings, strict=True)
        ]
        rows, n = (int(s) for s in scalars[:2])

        def launch() -> None:
            keys = arrays[KEYS][: rows * n].reshape(rows, n)
            # Two zeros count as one while rows are ordered.
            alike = np.where(keys == scalars[-1], keys.dtype.type(scalars[-2]), keys)
            order = np.argsort(alike, axis=1, kind="stable")
            result = order if self._positions else np.take_along_axis(keys, order, 1)
            arrays[ORDER][: rows * n].reshape(rows, n)[...] = result

        return launch

    def pieces(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> list[Piece]:
        """The steps of a launch; operand k is argument number k."""
        assert self.host is not None
        sizes: Any = scalars  # which a trace of them remembers
        rows, n, first, last, *zeros = sizes
        if not rows * n:
            return []
        key = self.tile.buffers[KEYS].dtype
        threads = self.host.threads if rows * n * _ELEMENT_NS > _SHARED_NS else 1
        passes = -(-(last - first) // _DIGIT_BITS)
        width = -(-(last - first) // passes)
        code = _code(self.host.engine(), key, self._positions)
        launch = _Launch(code, rows, n, threads, width)
        half = rows * n * key.itemsize * (2 if self._positions else 1)  # bytes of all elements between passes
        places = [(KEYS, 0), *[(SPARE, k % 2 * half) for k in range(passes - 1)], (ORDER, 0)]
        pieces: list[Piece] = []
        for k in range(passes):
            way = (k == 0, k == passes - 1) if self._positions else (True, True)
            pieces += launch.passed((places[k], places[k + 1]), first + k * width, *way)
        if zeros[0] != zeros[1]:
            pieces.append(launch.zeros(((KEYS, 0), (ORDER, 0)), zeros))
        return pieces

    @property
    def _positions(self) -> bool:
        return bool(dict(self.tile.constants)["POSITIONS"])

    def schedule(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> str:
        return "by digits"

    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        return radix.text(self.tile.buffers[KEYS].dtype, self._positions)


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
            whole = (radix.function("whole", first, last), self.rows, self._share)
            return [self._piece(places, {"shift": shift}, 1, [whole])]
        chunks = self.threads
        units = self.rows * chunks
        steps = [
            (radix.function("count", first), units, 1),
            (radix.function("scan"), self.rows, 1),
            (radix.function("move", first, last), units, 1),
        ]
        return [self._piece(places, {"shift": shift}, chunks, steps)]

    def zeros(self, places: tuple[Place, Place], keys: Sequence[int]) -> Piece:
        """What brings the two zeros of each row back into their order."""
        signed = [pack_scalar(key, u64) for key in keys]
        numbers = {"shift": signed[0], "mask": signed[1]}
        return self._piece(places, numbers, 1, [(radix.function("zeros"), self.rows, self._share)])

    @property
    def _share(self) -> int:
        """Rows of a slice."""
        return -(-self.rows // (4 * self.threads if self.threads > 1 else 1))

    def _piece(
        self,
        places: tuple[Place, Place],
        own: Mapping[str, int],
        chunks: int,
        steps: Sequence[tuple[int, int, int]],
    ) -> Piece:
        length, mask = -(-self.n // chunks), (1 << self.width) - 1
        numbers = {"n": self.n, "chunks": chunks, "length": length, "mask": mask, **own}
        return Piece(
            tuple(Step(self.code.addresses[f], total, size) for f, total, size in steps),
            [numbers.get(word, 0) for word in radix.WORDS],
            tuple(Patch(word, ADDRESS, *place) for word, place in enumerate(places)),
            owner=self.code,
            room=self.rows * chunks * radix.MOST_DIGITS // 2 if chunks > 1 else 0,
            room_at=radix.WORDS.index("room"),
        )
