"""The tile `fourier`: transforms along one axis by compiled code (transforms.py), or without a compiler by NumPy."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hologram.backends.cpu.fourier import halves, tables, transforms
from hologram.backends.cpu.fourier.transforms import ANY, COLUMNS, ROWS, WORDS, Kind
from hologram.backends.cpu.image import ADDRESS, Patch, Piece, Step
from hologram.backends.cpu.kernel import pack_scalar
from hologram.backends.cpu.written import WrittenKernel
from hologram.compiled.machine_code.engine import Code, Engine
from hologram.compiled.machine_code.objects import kept_code
from hologram.foundation.dtypes import DType, Number
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Span

_RADICES = (8, 9, 7, 5, 11, 13, 4, 3, 2)  # of a pass, those that are tried first ahead
_SHARED_NS = 10_000  # of a launch that is worth several threads
_SHARED_PAIRS = 16_384  # elements that are worth several threads to take apart
_VECTOR_NS = 0.9  # of a vector in a pass, estimated
_FIRST_CACHE, _SECOND_CACHE = 40 << 10, 768 << 10  # bytes of a core's that transforms may take
_ROOM = 256 << 10  # bytes of a slice, of which a thread may have several
_BYTES_BETWEEN = 256 << 10  # of a row that stay in a core's cache between both transforms
_FEWEST = {32: 4, 64: 2}  # lanes, by the bits of a part


@functools.lru_cache(maxsize=1024)
def passes(n: int) -> tuple[int, ...]:
    """The radices of a transform in registers."""
    found = []
    for r in _RADICES:
        while n % r == 0:
            found.append(r)
            n //= r
    if 8 in found and 2 in found:  # 4 x 4 takes less than 8 x 2
        found.remove(8)
        found.remove(2)
        found += [4, 4]
    return tuple(sorted(found, reverse=True))


def _cost(radices: Sequence[int]) -> float:
    """Of an element in its passes, in those of radix 1."""
    return sum(1 + (0.2 * math.log2(r) if r in (2, 4, 8) else 0.15 * r) for r in radices)


@frozen
class Work:
    """What a launch transforms, but where: so many times `count` transforms of n elements, and how the lanes lie."""

    part: DType
    n: int
    outer: int
    count: int
    given: tuple[bool, bool]  # whether lanes of x lie side by side, and elements
    taken: tuple[bool, bool]


@functools.lru_cache(maxsize=1024)
def chosen(work: Work, vector_bits: int) -> Kind:
    """The cheapest kind, as estimated."""
    return min(_kinds(work, vector_bits), key=lambda pair: pair[0])[1]


def _kinds(work: Work, vector_bits: int) -> Iterator[tuple[float, Kind]]:
    part, n = work.part, work.n
    lanes = vector_bits // part.bits
    while lanes >= _FEWEST[part.bits]:
        load, store = (_way(end, lanes, work) for end in (work.given, work.taken))
        kind = Kind(part, lanes, passes(n), (), load, store)
        turning = {COLUMNS: 0.0, ROWS: 1.2, ANY: 4.0}
        used = -(-work.count // lanes) * lanes / work.count
        room = 2 * kind.buffer_bytes
        cached = 1.0 if room <= _FIRST_CACHE else 1.4 if room <= _SECOND_CACHE else 4.0
        yield used * (_cost(kind.first) * cached + turning[load] + turning[store]) / lanes, kind
        if work.outer == 1 and work.given[1] and work.taken[1]:
            for n1 in _divisors(n):
                n2 = n // n1
                if min(n1, n2) >= lanes:
                    across, along = (-(-k // lanes) * lanes / k for k in (n2, n1))
                    cost = across * (_cost(passes(n1)) + 0.6) + along * (_cost(passes(n2)) + 1.2)
                    room = 2 * max(n1, n2) * kind.vector_bytes
                    cached = 1.0 if room <= _FIRST_CACHE else 1.4 if room <= _SECOND_CACHE else 3.0
                    yield cost * cached / lanes, Kind(part, lanes, passes(n1), passes(n2))
        lanes //= 2


def _way(end: tuple[bool, bool], lanes: int, work: Work) -> str:
    beside, along = end
    return COLUMNS if beside and work.count >= lanes else ROWS if along and work.n >= lanes else ANY


def _divisors(n: int) -> list[int]:
    return [k for k in range(2, math.isqrt(n) * 8 + 1) if n % k == 0 and k < n]


@functools.lru_cache(maxsize=64)
def _code(engine: Engine, kind: Kind) -> Code:
    text = transforms.text(kind)
    return kept_code(engine, "fourier", text, lambda: (text, kind.functions))


@functools.lru_cache(maxsize=64)
def roots(kind: Kind) -> tuple[np.ndarray, ...]:
    """What elements are turned by: in the passes of both transforms, and between these."""
    passes_of = [tables.pass_roots(r, kind.part) for r in (kind.first, kind.second)]
    return (*passes_of, tables.turns(kind) if kind.second else passes_of[1])


@frozen
class FourierKernel(WrittenKernel):
    """Transforms of `count` lanes of each of `outer` positions."""

    def pieces(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> list[Piece]:
        """The steps of a launch; operand k is argument number k."""
        assert self.host is not None
        number = self.numbers(scalars)
        kind = self._kind(number)
        code, known_roots = _code(self.host.engine(), kind), roots(kind)
        steps, room_bytes, blocks = self._steps(kind, code, number)
        size = 2 * kind.part.itemsize
        known = {name: number[name] * size for name in transforms.STRIDES}
        if kind.second:  # a row is an outer position
            known |= {f"{end}_outer": known[f"{end}_lane"] for end in ("x", "out")}
        sign = -1.0 if number["inverse"] else 1.0
        factors = (sign, number["scale"], sign * number["scale"])
        known |= {
            name: pack_scalar(value, kind.part)
            for name, value in zip(transforms.FACTORS, factors, strict=True)
        }
        known |= {
            name: t.ctypes.data for name, t in zip(("first", "second", "turns"), known_roots, strict=True)
        }
        known |= {"count": number["count"], "room_bytes": room_bytes}
        patches = tuple(
            Patch(WORDS.index(name), ADDRESS, k, number.get(f"{name}_offset", 0) * size)
            for k, name in enumerate(b.name for b in self.tile.buffers)
        )
        pieces = []
        for step, count in zip(steps, blocks, strict=True):
            own = known | {"blocks": count, "slice": step.slice}
            words = [own.get(name, 0) for name in WORDS]
            slices = -(-step.total // step.slice)
            room = (slices * room_bytes + 64) // 8
            pieces.append(
                Piece(
                    (step,), words, patches, owner=(code, known_roots), room=room, room_at=WORDS.index("room")
                )
            )
        return pieces

    def _steps(self, kind: Kind, code: Code, number: dict[str, Any]) -> tuple[list[Step], int, list[int]]:
        """The steps, the bytes of room that a slice wants, and how many blocks an outer position has in each."""
        assert self.host is not None
        outer, count, room = number["outer"], number["count"], 2 * kind.buffer_bytes + 64
        vectors = outer * count * number["n"] * (_cost(kind.first) + _cost(kind.second)) / kind.lanes
        threads = self.host.threads if vectors * _VECTOR_NS > _SHARED_NS else 1

        def shared(function: int, total: int) -> Step:
            most = 4 * threads if room <= _ROOM else threads
            slices = min(total, most) if threads > 1 else 1
            return Step(code.addresses[function], total, -(-total // slices))

        if not kind.second:
            blocks = -(-count // kind.lanes)
            return [shared(0, outer * blocks)], room, [blocks]
        between = kind.temporary_bytes
        if len(self.tile.buffers) > 2 and (between > _BYTES_BETWEEN or count < threads):
            each = [kind.blocks, -(-kind.n1 // kind.lanes)]
            return [shared(k, count * blocks) for k, blocks in enumerate(each)], room, each
        return [shared(2, count)], room + between, [0]

    def _kind(self, number: dict[str, Any]) -> Kind:
        assert self.host is not None
        ends = [(number[f"{end}_lane"] == 1, number[f"{end}_element"] == 1) for end in ("x", "out")]
        part = self.tile.buffers[0].dtype.part
        work = Work(part, number["n"], number["outer"], number["count"], *ends)
        return chosen(work, self.host.engine().vector_bits)

    def schedule(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> str:
        if self.host is None:
            return "numpy"
        kind = self._kind(self.numbers(scalars))
        shape = " x ".join(map(str, kind.first)), " x ".join(map(str, kind.second))
        return f"{kind.lanes} lanes, {' and '.join(filter(None, shape))}"

    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        """The LLVM IR of its steps."""
        if self.host is None or not scalars:
            return f"; {self.tile.name}"
        return transforms.text(self._kind(self.numbers(scalars)))

    def by_numpy(self, arrays: dict[str, np.ndarray], number: dict[str, Any], grid: tuple[int, ...]) -> None:
        def of(name: str) -> np.ndarray:
            array = arrays[name][number[f"{name}_offset"] :]
            strides = [number[f"{name}_{axis}"] * array.itemsize for axis in ("outer", "lane", "element")]
            shape = (number["outer"], number["count"], number["n"])
            return np.lib.stride_tricks.as_strided(array, shape, strides)

        x, n = of("x"), number["n"]
        made = np.fft.ifft(x) * n if number["inverse"] else np.fft.fft(x)
        of("out")[...] = made * number["scale"]


@functools.lru_cache(maxsize=16)
def _halves(engine: Engine, part: DType) -> Code:
    text = halves.text(part, engine.vector_bits // part.bits)
    return kept_code(engine, "fourier_halves", text, lambda: (text, halves.FUNCTIONS))


@frozen
class HalvesKernel(WrittenKernel):
    """Spectra of pairs of real numbers taken apart, or put together, row by row."""

    def pieces(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> list[Piece]:
        """The steps of a launch; operand k is argument number k."""
        assert self.host is not None
        number, dtype = self.numbers(scalars), self.tile.buffers[0].dtype
        code = _halves(self.host.engine(), dtype.part)
        known = {name: number[name] * dtype.itemsize for name in ("x_row", "out_row")}
        known["half"] = number["half"]
        words = [known.get(name, 0) for name in halves.WORDS]
        patches = tuple(
            Patch(k, ADDRESS, halves.ADDRESSES.index(b.name)) for k, b in enumerate(self.tile.buffers)
        )
        rows = number["rows"]
        slices = min(rows, 4 * self.host.threads) if rows * number["half"] > _SHARED_PAIRS else 1
        step = Step(code.addresses[int(dict(self.tile.constants)["TOGETHER"])], rows, -(-rows // slices))
        return [Piece((step,), words, patches, owner=code)]

    def schedule(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> str:
        return "halves" if self.host is not None else "numpy"

    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        """The LLVM IR of its steps."""
        if self.host is None:
            return f"; {self.tile.name}"
        part = self.tile.buffers[0].dtype.part
        return halves.text(part, self.host.engine().vector_bits // part.bits)

    def by_numpy(self, arrays: dict[str, np.ndarray], number: dict[str, Any], grid: tuple[int, ...]) -> None:
        half, rows = number["half"], number["rows"]
        together = bool(dict(self.tile.constants)["TOGETHER"])
        counts = (half + 1, half) if together else (half, half + 1)
        x, out = (
            np.lib.stride_tricks.as_strided(
                arrays[name],
                (rows, count),
                (number[f"{name}_row"] * arrays[name].itemsize, arrays[name].itemsize),
            )
            for name, count in zip(("x", "out"), counts, strict=True)
        )
        root = arrays["roots"][:half]
        if together:
            given = x.copy()
            given[:, [0, half]] = np.real(given[:, [0, half]])
            a, b = given[:, :half], given[:, :0:-1].conj()
            out[...] = (a + b) + 1j * (a - b) * root.conj()
        else:
            a = x.copy()
            b = np.roll(a[:, ::-1], 1, axis=1).conj()
            out[:, :half] = ((a + b) - 1j * (a - b) * root) / 2
            out[:, half] = np.real(a[:, 0]) - np.imag(a[:, 0])
