"""The tile `order_rows`: rows of keys put in order, or their stable order, as passes of compiled code (radix.py)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hologram.backends.cpu.image import ADDRESS, Patch, Piece, Step
from hologram.backends.cpu.kernel import pack_scalar
from hologram.backends.cpu.sorting import buckets, network, radix
from hologram.backends.cpu.sorting.keys import Keys
from hologram.backends.cpu.written import WrittenKernel
from hologram.compiled.machine_code.engine import Code, Engine
from hologram.compiled.machine_code.objects import kept_code
from hologram.foundation.dtypes import Number, u64
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Span

_ELEMENT_NS = 3.0  # of a pass, estimated
_SHARED_NS = 12_000  # of a pass that is worth several threads
_DIGIT_BITS = 8
KEYS, ORDER, SPARE = range(3)  # the tile's buffers


@functools.lru_cache(maxsize=16)
def _buckets_code(engine: Engine, keys: Keys) -> Code:
    text = buckets.text(keys, engine.integer_bits)
    return kept_code(engine, "buckets", text, lambda: (text, buckets.FUNCTIONS))


@functools.lru_cache(maxsize=16)
def _code(engine: Engine, keys: Keys, positions: bool, size: int = 0) -> Code:
    text = radix.text(keys, positions, size)
    return kept_code(engine, "network" if size else "radix", text, lambda: (text, radix.functions(size)))


@frozen
class OrderKernel(WrittenKernel):
    """The tile on the CPU: by compiled code, or where there is no compiler by NumPy."""

    def by_numpy(self, arrays: dict[str, np.ndarray], number: dict[str, Any], grid: tuple[int, ...]) -> None:
        rows, n, *_, one, other = number.values()
        keys, result = (arrays[self.tile.buffers[k].name][: rows * n].reshape(rows, n) for k in (KEYS, ORDER))
        # Two zeros count as one while rows are ordered.
        alike = np.where(keys == other, keys.dtype.type(one), keys) if self._keys.plain else keys
        if self._keys.descending:  # by the last of equal ones first, and that turned round
            order = n - 1 - np.argsort(alike[:, ::-1], axis=1, kind="stable")[:, ::-1]
        else:
            order = np.argsort(alike, axis=1, kind="stable")
        result[...] = order if self._positions else np.take_along_axis(keys, order, 1)

    def pieces(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> list[Piece]:
        """The steps of a launch; operand k is argument number k."""
        assert self.host is not None
        sizes: Any = scalars  # which a trace of them remembers
        rows, n, first, last, *zeros = sizes
        if not rows * n:
            return []
        key = self.tile.buffers[KEYS].dtype
        threads = self.host.threads if rows * n * _ELEMENT_NS > _SHARED_NS else 1
        size = self._size(n)
        if not self._positions and not size:
            return self._dealt(rows, n, first, zeros, threads)
        passes = 1 if size else -(-(last - first) // _DIGIT_BITS)
        width = 0 if size else -(-(last - first) // passes)
        code = _code(self.host.engine(), self._keys, self._positions, size)
        launch = _Launch(code, rows, n, threads, width)
        half = 2 * rows * n * key.itemsize  # bytes of all elements between passes
        places = [(KEYS, 0), *[(SPARE, k % 2 * half) for k in range(passes - 1)], (ORDER, 0)]
        pieces: list[Piece] = []
        if size:
            pieces.append(launch.by_row(radix.functions(size), "network", places, {}))
        else:
            for k in range(passes):
                way = k == 0, k == passes - 1
                pieces += launch.passed((places[k], places[k + 1]), first + k * width, *way)
        if zeros[0] != zeros[1]:
            pieces.append(launch.zeros(radix.functions(size), ((KEYS, 0), (ORDER, 0)), zeros))
        return pieces

    def _dealt(self, rows: int, n: int, first: int, zeros: Sequence[int], threads: int) -> list[Piece]:
        assert self.host is not None
        keys = self._keys
        code, vector_bits = _buckets_code(self.host.engine(), keys), self.host.engine().integer_bits
        usual = min(buckets.MOST_BITS, max(1, n.bit_length() - buckets.bucket_bits(keys, vector_bits)))
        bits = buckets.LAST_BITS if n >= buckets.LONG else usual
        launch = _Launch(code, rows, n, threads, bits)
        pieces = [launch.dealt(first, (1 << usual) - 1, rows * n * keys.dtype.itemsize)]
        if zeros[0] != zeros[1]:
            pieces.append(launch.zeros(buckets.FUNCTIONS, ((KEYS, 0), (ORDER, 0)), zeros))
        return pieces

    def _size(self, n: int) -> int:
        """Vectors of a network for rows of n; 0 where they are ordered by digits."""
        key = self.tile.buffers[KEYS].dtype
        if key.bits == 64 and self._positions:
            return 0
        return network.size_for(n, "i64" if self._positions else f"i{key.bits}")

    @property
    def _keys(self) -> Keys:
        constants = dict(self.tile.constants)
        return Keys(self.tile.buffers[KEYS].dtype, bool(constants.get("DESCENDING")))

    @property
    def _positions(self) -> bool:
        return bool(dict(self.tile.constants)["POSITIONS"])

    def schedule(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> str:
        if self._size(int(scalars[1])):
            return "by a network"
        return "by digits" if self._positions else "by buckets"

    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        size = self._size(int(scalars[1])) if scalars else 0
        if not size and not self._positions and self.host is not None:
            return buckets.text(self._keys, self.host.engine().integer_bits)
        return radix.text(self._keys, self._positions, size)


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

    def dealt(self, first_bit: int, usual: int, nbytes: int) -> Piece:
        """All of a sort by buckets; `usual` is the first digit's mask, `nbytes` are those of all keys."""
        places = (KEYS, 0), (ORDER, 0), (SPARE, 0), (SPARE, nbytes)
        first = {"shift": first_bit, "usual": usual}
        if self.rows >= self.threads:
            return self.by_row(buckets.FUNCTIONS, "alone", places, first)
        chunks = self.threads
        units, buckets_ = self.rows * chunks, self.rows << self.width
        slices = (units, 1), (units, 1), (self.rows, 1), (units, 1), (buckets_, -(-buckets_ // (32 * chunks)))
        steps = [
            (buckets.FUNCTIONS.index(name), *slice_)
            for name, slice_ in zip(buckets.STEPS, slices, strict=True)
        ]
        return self._piece(places, first, chunks, steps)

    def zeros(self, functions: Sequence[str], places: tuple[Place, Place], keys: Sequence[int]) -> Piece:
        """What brings the two zeros of each row back into their order."""
        signed = [pack_scalar(key, u64) for key in keys]
        return self.by_row(functions, "zeros", places, {"shift": signed[0], "mask": signed[1]})

    def by_row(
        self, functions: Sequence[str], what: str, places: Sequence[Place], numbers: Mapping[str, int]
    ) -> Piece:
        """A function that takes whole rows."""
        return self._piece(places, numbers, 1, [(functions.index(what), self.rows, self._share)])

    @property
    def _share(self) -> int:
        """Rows of a slice."""
        return -(-self.rows // (4 * self.threads if self.threads > 1 else 1))

    def _piece(
        self,
        places: Sequence[Place],
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
            room=self.rows * chunks * radix.COUNTERS // 2 if chunks > 1 else 0,
            room_at=radix.WORDS.index("room"),
        )
