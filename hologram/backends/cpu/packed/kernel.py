"""The tiles of packed weights: few rows times them (rows.py), and they as floats (slabs.py), by compiled code."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from hologram.backends.cpu.image import ADDRESS, Patch, Piece, Step
from hologram.backends.cpu.packed.blocks import Blocks
from hologram.backends.cpu.packed.bytes import ByteBlocks, steps_at_once
from hologram.backends.cpu.packed.decoding import Machine
from hologram.backends.cpu.packed.experts import Experts, experts_room_bytes
from hologram.backends.cpu.packed.rows import Rows, room_bytes
from hologram.backends.cpu.packed.slabs import Slabs
from hologram.backends.cpu.packed.unpacking import lanes_of
from hologram.backends.cpu.written import WrittenKernel
from hologram.compiled.machine_code.engine import Code, Engine
from hologram.compiled.machine_code.objects import kept_code
from hologram.foundation.config import config
from hologram.foundation.dtypes import DType, Number, f32
from hologram.foundation.frozen import frozen
from hologram.foundation.sizes import whole
from hologram.machine.kernel import Span
from hologram.machine.plan import Tile
from hologram.opset.packed.formats import UNIT, Format
from hologram.opset.packed.repacking import weights_of

# Estimated on a Zen 3 core, of 32 neighbours: of weights that are read, of each row of x times these, and of x.
_READ_NS = 1.0
_MULTIPLY_NS = 0.7
_PREPARE_NS = 12.0
_UNPACK_NS = 2.0
_BLOCK_NS = 0.2
_WIDEN_NS = 8.0
ROWS = 2  # of x: more go by blocks
_SHORTEST_NS = 4_000  # no slice is made shorter
_SLICES = 2  # for each thread, so that one that is held up leaves some of its work to the others


def machine_of(engine: Engine) -> Machine:
    """What decides which instructions the code asks for by name."""
    return Machine(engine.architecture, engine.integer_bits, engine.adds_products)


@functools.lru_cache(maxsize=64)
def _code(engine: Engine, writer: type[Rows | Slabs], format: Format, dtype: DType) -> Code:
    text = writer(format, dtype, machine_of(engine)).text()
    return kept_code(engine, "packed", text, lambda: (text, writer.functions))


def writer_of(m: Any, format: Format, machine: Machine) -> type[Rows]:
    """What writes a product of so many rows of x."""
    if m <= ROWS:
        return Rows
    return ByteBlocks if config.cpu_activation_bits == 8 and steps_at_once(format, machine) else Blocks


def format_of(tile: Tile) -> Format:
    """The format that a tile's constants and buffers say."""
    known: dict[str, Any] = dict(tile.constants)
    table = tuple(known.pop(f"ENTRY_{k}") for k in range(16)) if "ENTRY_0" in known else ()
    dtypes = {b.name: b.dtype for b in tile.buffers}
    code = dtypes["codes"] if dtypes["codes"].itemsize == 1 else None
    settings = {name.lower(): x for name, x in known.items()}
    return Format("", scale=dtypes["scales"], code=code, table=table, **settings)


@frozen
class PackedKernel(WrittenKernel):
    """A tile on the CPU: by compiled code, or where there is no compiler by NumPy."""

    def _writer(self) -> Rows | Slabs:
        raise NotImplementedError

    def _weights(self, arrays: dict[str, np.ndarray], number: dict[str, Any]) -> np.ndarray:
        n, k = number["n"], number["k"]
        format, planes = format_of(self.tile), {}
        for name, (_, (_, width)) in format.planes(n, k).items():
            begin, row = number[f"{name}_offset"], number[f"{name}_row"]
            itemsize = arrays[name].itemsize
            planes[name] = np.lib.stride_tricks.as_strided(
                arrays[name][begin:], (n, width), (row * itemsize, itemsize)
            )
        return weights_of(format, planes, k)

    def _piece(
        self,
        number: dict[str, Any],
        code: Code,
        words: Sequence[str],
        steps: Sequence[tuple[Any, float]],
        room: Any = 0,
    ) -> Piece:
        """A launch of functions on so many units each, which take so long, and with so many words of room."""
        assert self.host is not None
        threads = self.host.threads
        sizes = {b.name: b.dtype.itemsize for b in self.tile.buffers}
        known = {"units": number["k"] // UNIT} | {name: number[name] for name in words if name in number}
        known |= {
            f"{name}_row": number[f"{name}_row"] * sizes[name] for name in sizes if f"{name}_row" in number
        }
        patches = tuple(
            Patch(words.index(b.name), ADDRESS, k, number.get(f"{b.name}_offset", 0) * sizes[b.name])
            for k, b in enumerate(self.tile.buffers)
        )
        made = tuple(
            Step(address, total, _slice(total, each_ns, threads))
            for address, (total, each_ns) in zip(code.addresses, steps, strict=True)
        )
        values = [known.get(name, 0) for name in words]
        room_at = words.index("room") if "room" in words else 0
        return Piece(made, values, patches, owner=code, room=room, room_at=room_at)

    def schedule(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> str:
        return "packed" if self.host is not None else "numpy"

    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        """The LLVM IR of its steps."""
        return self._writer().text() if self.host is not None else f"; {self.tile.name}: by NumPy"


class ProductKernel(PackedKernel):
    """Few rows times packed weights."""

    def pieces(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> list[Piece]:
        assert self.host is not None
        number, engine = self.numbers(scalars), self.host.engine()
        m, n, units = number["m"], number["n"], number["k"] // UNIT
        format, machine = format_of(self.tile), machine_of(engine)
        writer = writer_of(m, format, machine)
        code = _code(engine, writer, format, self.tile.buffers[0].dtype)
        if writer is Rows:
            work = (n, units * (_READ_NS + m * _MULTIPLY_NS))
        else:
            lanes = lanes_of(machine)
            work = (-(-n // lanes), units * lanes * (_UNPACK_NS + m * _BLOCK_NS))
        room = room_bytes(m, units, UNIT // min(format.group, UNIT)) // 8 + 1
        return [self._piece(number, code, Rows.arguments, ((m * units, _PREPARE_NS), work), room)]

    def by_numpy(self, arrays: dict[str, np.ndarray], number: dict[str, Any], grid: tuple[int, ...]) -> None:
        m, n, k = (number[name] for name in ("m", "n", "k"))
        x = arrays["x"][: m * k].reshape(m, k).astype(np.float32)
        arrays["out"][: m * n] = (x @ self._weights(arrays, number).T).reshape(-1)

    def _writer(self) -> Rows:
        assert self.host is not None
        machine = machine_of(self.host.engine())
        return Rows(format_of(self.tile), self.tile.buffers[0].dtype, machine)


class ExpertsKernel(PackedKernel):
    """Rows times the packed weights of the experts that they are sent to."""

    def pieces(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> list[Piece]:
        assert self.host is not None
        number, format = self.numbers(scalars), format_of(self.tile)
        pairs, n, units, experts = number["pairs"], number["n"], number["k"] // UNIT, number["experts"]
        code = _code(self.host.engine(), Experts, format, self.tile.buffers[0].dtype)
        steps = ((1, 0.0), (pairs * units, _PREPARE_NS), (n, units * pairs * (_READ_NS + _MULTIPLY_NS)))
        room = experts_room_bytes(pairs, experts, units, UNIT // min(format.group, UNIT)) // 8 + 1
        return [self._piece(number, code, Experts.arguments, steps, room)]

    def by_numpy(self, arrays: dict[str, np.ndarray], number: dict[str, Any], grid: tuple[int, ...]) -> None:
        pairs, n, k, experts = (number[name] for name in ("pairs", "n", "k", "experts"))
        parts = n // number["height"]
        x = arrays["x"][: pairs // number["each"] * k].reshape(-1, k).astype(np.float32)
        weights = self._weights(arrays, number | {"n": parts * experts * number["height"]})
        weights = weights.reshape(parts, experts, -1, k)
        out = arrays["out"][: pairs * n].reshape(pairs, n)
        named = arrays["chosen"][:pairs]
        out[...] = 0
        for expert in range(experts):
            own = np.flatnonzero((named == expert) | (named == expert - experts))
            out[own] = x[own // number["each"]] @ weights[:, expert].reshape(n, k).T

    def _writer(self) -> Experts:
        assert self.host is not None
        machine = machine_of(self.host.engine())
        return Experts(format_of(self.tile), self.tile.buffers[0].dtype, machine)


class WeightsKernel(PackedKernel):
    """Packed weights as floats."""

    def pieces(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> list[Piece]:
        assert self.host is not None
        number = self.numbers(scalars)
        code = _code(self.host.engine(), Slabs, format_of(self.tile), f32)
        steps = ((number["n"], number["k"] // UNIT * _WIDEN_NS),)
        return [self._piece(number, code, Slabs.arguments, steps)]

    def by_numpy(self, arrays: dict[str, np.ndarray], number: dict[str, Any], grid: tuple[int, ...]) -> None:
        n, k = number["n"], number["k"]
        out = np.lib.stride_tricks.as_strided(
            arrays["out"][number["out_offset"] :], (n, k), (number["out_row"] * 4, 4)
        )
        out[...] = self._weights(arrays, number)

    def _writer(self) -> Slabs:
        assert self.host is not None
        return Slabs(format_of(self.tile), f32, machine_of(self.host.engine()))


def _slice(total: Any, each_ns: Any, threads: int) -> Any:
    """How many of `total` are a slice: all of them where they are worth one thread alone."""
    slices = max(1, min(whole(total * each_ns / _SHORTEST_NS), threads * _SLICES)) if threads > 1 else 1
    return -(-total // slices)
