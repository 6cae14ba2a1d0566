"""Scores of an attention block by block, so that no memory holds all."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen
from hologram.foundation.sizes import fixed_range
from hologram.machine.limits import Limits
from hologram.opset.forms.steps import Place
from hologram.opset.tiles.attention.attended import Attended

BLOCK_BYTES = 2 << 20  # of scores on a CPU: near a core's second cache, and enough for its products
BLOCK_BYTES_OF_GPUS = 64 << 20  # enough work for one launch
MOST_BLOCKS = 4  # of scores that are kept whole
LEAST_ROWS = 32  # of a block, that products are worth it


@frozen
class Block:
    """A part of the scores (batch..., l, s): one entry of the outer batch axes, and ranges of the other three."""

    outer: tuple[int, ...]
    heads: tuple[int, int] | None  # from, and how many; None: there is no batch, or the block is all of it
    rows: tuple[int, int]
    columns: tuple[int, int]
    shape: tuple[int, ...]

    @classmethod
    def whole(cls, shape: tuple[int, ...]) -> Block:
        return cls((), None, (0, shape[-2]), (0, shape[-1]), shape)

    def of(self, place: Place, rows: int | None = None, columns: int | None = None) -> Place:
        """What of an operand it is about; `rows` and `columns` say which axes are those of the scores."""
        layout = place.layout
        for position in self.outer:
            layout = layout.select(0, position)
        if self.heads is not None:
            layout = layout.narrow(0, *self.heads)
        if rows is not None:
            layout = layout.narrow(rows, *self.rows)
        if columns is not None:
            layout = layout.narrow(columns, *self.columns)
        return Place(place.position, layout)


def _block_bytes(limits: Limits) -> int:
    return BLOCK_BYTES if limits.serial_workgroups else BLOCK_BYTES_OF_GPUS


def is_large(shape: tuple[int, ...], dtype: DType, limits: Limits) -> bool:
    """Whether scores are computed block by block, as they are more than a few blocks."""
    return math.prod(shape) * dtype.itemsize > MOST_BLOCKS * _block_bytes(limits)


def blocks(found: Attended, dtype: DType, limits: Limits) -> Iterator[Block]:
    """Blocks of scores; those of causal rows, and of windows, leave out the keys that none of their rows looks at."""
    elements = _block_bytes(limits) // dtype.itemsize
    *batch, rows, columns = found.scores
    window = found.look.window
    width = columns if window is None or found.lengths is not None else min(columns, LEAST_ROWS + 2 * window)
    heads = max(1, elements // (rows * columns))
    step = rows if heads > 1 and width == columns else min(rows, max(LEAST_ROWS, elements // width))
    if step < rows:
        heads = 1
    for outer in np.ndindex(*batch[:-1]):
        for head in fixed_range(0, batch[-1], heads) if batch else (0,):
            of_heads = (head, min(heads, batch[-1] - head)) if batch else None
            for first in fixed_range(0, rows, step):
                count = min(step, rows - first)
                begin, end = _seen(found, first, first + count, columns)
                part = (of_heads[1], count, end - begin) if of_heads else (count, end - begin)
                yield Block(outer, of_heads, (first, count), (begin, end - begin), part)


def _seen(found: Attended, first: int, stop: int, columns: int) -> tuple[int, int]:
    """The keys that some row of a range looks at, as far as it is known without lengths."""
    look = found.look
    if found.lengths is not None:
        return 0, columns
    begin, end = 0, columns
    if look.window is not None:
        begin, end = max(0, first - look.window + 1), min(columns, stop + look.window - 1)
    if look.causal:
        end = min(end, stop)
    return min(begin, end), end
