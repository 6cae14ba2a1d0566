"""The tile `attention_few` on the CPU: by compiled code (few.py), or where there is no compiler by NumPy."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from hologram.backends.cpu.attending.few import Few
from hologram.backends.cpu.attending.joining import MOST_PARTS
from hologram.backends.cpu.attending.mixing import BLOCK
from hologram.backends.cpu.attending.reading import ADDRESSES, ARGUMENTS, Kind
from hologram.backends.cpu.image import ADDRESS, Patch, Piece, Step
from hologram.backends.cpu.written import WrittenKernel
from hologram.compiled.machine_code.engine import Code, Engine
from hologram.compiled.machine_code.objects import kept_code
from hologram.foundation.dtypes import Number
from hologram.foundation.frozen import frozen
from hologram.foundation.sizes import whole
from hologram.machine.kernel import Span
from hologram.opset.tiles.attention.few import AXES

# Estimated on a Zen 3 core: bytes of keys and values that are read; of a query and a key, 8 elements, and the weight.
_READ_NS = 0.06
_PIECE_NS = 0.2
_WEIGHT_NS = 1.0
_SHORTEST_NS = 4_000  # no slice is made shorter
_SLICES = 4  # for each thread, so that one that is held up leaves some of its work to the others


@functools.lru_cache(maxsize=64)
def _code(engine: Engine, kind: Kind) -> Code:
    text = Few(kind).text()
    return kept_code(engine, "attention_few", text, lambda: (text, Few.functions))


@frozen
class FewKernel(WrittenKernel):
    """Few queries that attend to many keys."""

    def pieces(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> list[Piece]:
        """The steps of a launch; operand k is argument number k."""
        assert self.host is not None
        number, threads = self.numbers(scalars), self.host.threads
        heads, outer, _ = grid
        pairs, count = heads * outer, number["rows"] * number["groups"]
        sizes = {b.name: b.dtype.itemsize for b in self.tile.buffers}
        read = (number["e"] + number["ev"]) * sizes["k"] * _READ_NS
        each_ns = number["keys"] * (
            read + count * ((number["e"] + number["ev"]) // 8 * _PIECE_NS + _WEIGHT_NS)
        )
        slices = max(1, min(whole(pairs * each_ns / _SHORTEST_NS), threads * _SLICES)) if threads > 1 else 1
        parts = 1 if pairs >= slices else min(MOST_PARTS, -(-slices // pairs))
        turn = math.gcd(number["block"], BLOCK)
        code = _code(self.host.engine(), self._kind())
        known = {**number, "parts": parts, "turn": turn}
        known |= {n: struct.unpack("<q", struct.pack("<f4x", number[n]))[0] for n in ("scale", "softcap")}
        known |= {n: x * sizes[n.partition("_")[0]] for n, x in number.items() if "_" in n}
        known["heads"] = heads
        words = [0 if name in ADDRESSES else known[name] for name in ARGUMENTS]
        patches = tuple(
            Patch(ARGUMENTS.index(b.name), ADDRESS, k, number[f"{b.name}_offset"] * sizes[b.name])
            for k, b in enumerate(self.tile.buffers)
        )
        total = pairs * parts
        attend = Step(code.addresses[0], total, -(-total // slices))
        joins = pairs * count
        # As long as a key is read for each part.
        turns = max(1, min(whole(joins * parts * number["ev"] * 0.05 / _SHORTEST_NS), threads))
        join = Step(code.addresses[1], joins, -(-joins // turns))
        room = joins * parts * (number["ev"] + 8) // 2 + 1
        return [Piece((attend, join), words, patches, owner=code, room=room, room_at=ARGUMENTS.index("room"))]

    def schedule(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> str:
        return "few queries" if self.host is not None else "numpy"

    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        """The LLVM IR of its steps."""
        return Few(self._kind()).text() if self.host is not None else f"; {self.tile.name}: by NumPy"

    def _kind(self) -> Kind:
        known = dict(self.tile.constants)
        dtypes = {b.name: b.dtype for b in self.tile.buffers}
        dtypes["table"] = dtypes["mask"]
        flags = {
            "table": "PAGED",
            "scales": "SCALED",
            "mask": "MASKED",
            "lengths": "LENGTHS",
            "slopes": "SLOPES",
            "sinks": "SINKS",
        }
        given = {name: dtypes[name] if known[flag] else None for name, flag in flags.items()}
        causal, window, softcap = (bool(known[name]) for name in ("CAUSAL", "WINDOW", "SOFTCAP"))
        return Kind(dtypes["q"], dtypes["k"], **given, causal=causal, window=window, softcap=softcap)

    def by_numpy(self, arrays: dict[str, np.ndarray], number: dict[str, Any], grid: tuple[int, ...]) -> None:
        kind, (heads, outer, _) = self._kind(), grid
        batch = (outer, heads, number["groups"])

        def of_rows(name: str, rows: int, columns: int) -> np.ndarray:
            array = arrays[name][number[f"{name}_offset"] :]
            axes = [number[f"{name}_{axis}"] for axis in ("batch", "head", "group", "row")]
            strides = [n * array.itemsize for n in (*axes, 1)]
            return np.lib.stride_tricks.as_strided(array, (*batch, rows, columns), strides)

        def of_heads(name: str) -> np.ndarray:
            array = arrays[name][number[f"{name}_offset"] :]
            strides = [number[f"{name}_{axis}"] * array.itemsize for axis in ("batch", "head", "group")]
            return np.lib.stride_tricks.as_strided(array, batch, strides)[..., None, None]

        rows, keys, e, ev = (number[n] for n in ("rows", "keys", "e", "ev"))

        def cached(name: str, columns: int, of_values: int) -> np.ndarray:
            position, page = np.arange(keys), np.zeros((outer, heads, 1), np.int64)
            if kind.table is not None:
                table = of_rows("mask", -(-keys // number["block"]), 1)[:, :, 0, :, 0].astype(np.int64)
                page = np.where((table >= 0) & (table < number["blocks"]), table, 0)
                page = page[..., position // number["block"]]
            position = position % number["block"]
            places = [
                [number[f"{n}_{axis}"] for axis in (*AXES[:3], "row", "block")] for n in (name, "scales")
            ]
            entry, head = np.arange(outer)[:, None, None], np.arange(heads)[:, None]
            lines, scales = (o + entry * b + head * h + position * r + page * p for o, b, h, r, p in places)
            found = arrays[name][lines[..., None] + np.arange(columns)].astype(np.float32)
            if kind.scales is not None:
                found *= arrays["scales"][scales + of_values, None].astype(np.float32)
            return found[:, :, None]

        q = of_rows("q", rows, e).astype(np.float32)
        k, v = cached("k", e, 0), cached("v", ev, number["scales_of_values"])
        scores = q @ np.swapaxes(k, -1, -2) * np.float32(number["scale"])
        if kind.softcap:
            scores = number["softcap"] * np.tanh(scores / number["softcap"])
        row, column = np.arange(rows)[:, None], np.arange(keys)
        seen = np.ones(scores.shape, bool)
        if kind.lengths is not None:
            lengths = of_heads("lengths").astype(np.int64)
            row, seen = row + lengths - rows, seen & (column < lengths)
        if kind.slopes is not None:
            scores = scores + of_heads("slopes").astype(np.float32) * (column - row)
        if kind.mask is not None:
            mask = of_rows("mask", rows, keys)
            if kind.mask.kind == "bool":
                seen = seen & mask.astype(bool)
            else:
                seen = seen & (mask != -np.inf)
                scores = scores + np.maximum(mask.astype(np.float32), np.float32(-1e38))
        if kind.causal:
            seen = seen & (column <= row)
        if kind.window:
            seen = (
                seen & (column > row - number["window"]) & (kind.causal | (column < row + number["window"]))
            )
        scores = np.where(seen, scores, -np.inf)
        top = np.fmax.reduce(scores, axis=-1, keepdims=True)
        sinks = of_heads("sinks").astype(np.float32) if kind.sinks is not None else -np.inf
        top = np.fmax(top, sinks)
        top = np.where(np.isneginf(top), 0, top)
        weights = np.exp(scores - top)
        total = weights.sum(axis=-1, keepdims=True) + np.exp(sinks - top)
        out = of_rows("out", rows, ev)
        out[...] = (weights @ v / np.where(total == 0, 1, total)).astype(out.dtype)
