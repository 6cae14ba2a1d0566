"""The tile `packed_product`: few rows of floats by packed weights (text.py)."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from hologram.backends.cpu.image import ADDRESS, Patch, Piece, Step
from hologram.backends.cpu.kernel import Host, bound
from hologram.backends.cpu.packed import text
from hologram.compiled.machine_code.engine import Code, Engine
from hologram.compiled.machine_code.objects import kept_code
from hologram.foundation.dtypes import Number
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding, Kernel, Launch, Span
from hologram.machine.plan import Tile
from hologram.opset.packed.few_rows import format_of
from hologram.opset.packed.formats import Format

_WEIGHT_NS = 0.04  # of a weight and a row, estimated
_SHARED_NS = 6_000  # of a launch that is worth several threads
_SLICES = 4  # for each thread, so that one that is held up leaves some of its work to the others


@functools.lru_cache(maxsize=64)
def _code(engine: Engine, format: Format) -> Code:
    module = text.text(format, engine.adds_pairs)
    return kept_code(engine, "packed", module, lambda: (module, text.FUNCTIONS))


@frozen
class PackedKernel(Kernel):
    """The tile on the CPU: by compiled code, or where there is no compiler by NumPy."""

    tile: Tile
    host: Host | None

    def bind(self, bindings: Sequence[Binding], scalars: Sequence[Number], grid: Sequence[int]) -> Launch:
        if self.host is not None:
            return bound(self.pieces, bindings, scalars, grid, self.host)
        m, n, k = (int(s) for s in scalars)
        format = format_of(self.tile)
        arrays = {
            p.name: b.memory.bytes[b.offset : b.offset + b.nbytes].view(p.dtype.numpy)
            for p, b in zip(self.tile.buffers, bindings, strict=True)
        }
        shapes = {name: shape for name, (_, shape) in format.planes(n, k).items()}

        def launch() -> None:
            planes = {name: arrays[name][: a * b].reshape(a, b) for name, (a, b) in shapes.items()}
            weights = format.weights(planes)
            arrays["out"][: m * n].reshape(m, n)[...] = arrays["x"][: m * k].reshape(m, k) @ weights.T

        return launch

    def pieces(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> list[Piece]:
        """Both steps of a launch; operand k is argument number k."""
        assert self.host is not None
        m, n, k = (int(s) for s in scalars)
        if not m * n:
            return []
        format = format_of(self.tile)
        code = _code(self.host.engine(), format)
        names = [b.name for b in self.tile.buffers]
        numbers = {"m": m, "n": n, "k": k}
        words = [numbers.get(word, 0) for word in text.WORDS]
        patches = tuple(Patch(text.WORDS.index(name), ADDRESS, at) for at, name in enumerate(names))
        threads = self.host.threads if m * n * k * _WEIGHT_NS > _SHARED_NS else 1
        share = -(-n // (_SLICES * threads if threads > 1 else 1))
        units = m * (k // text.UNIT)
        steps = (Step(code.addresses[0], units, units), Step(code.addresses[1], n, share))
        room = m * text.Geometry(format).row_words(k) // 2 + 1
        return [Piece(steps, words, patches, owner=code, room=room, room_at=text.WORDS.index("room"))]

    def schedule(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> str:
        return "by whole numbers"

    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        return text.text(format_of(self.tile), False)
