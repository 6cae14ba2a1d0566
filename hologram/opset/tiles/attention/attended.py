"""What an attention looks at: its operands, checked and broadcast, and its settings."""

from __future__ import annotations

from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout

# Positions of the operands, of an attention as of its gradient.
Q, K, V, MASK, LENGTHS, SLOPES, SINKS, BEHIND = range(8)
TABLE, SCALES, RESULT = range(BEHIND, BEHIND + 3)  # and of an attention alone


@frozen
class Look:
    """Which keys a query looks at, and how scores become weights."""

    causal: bool = False
    scale: float = 1.0
    window: int | None = None  # keys that a query looks back at, its own among them
    softcap: float = 0.0  # bound of scores; 0: none

    @property
    def is_plain(self) -> bool:
        return self.window is None and not self.softcap


@frozen
class Pages:
    """Where blocks of so many positions lie: numbers in a table, and what is between neighbouring blocks of a pool."""

    table: Layout  # (batch..., blocks)
    block: int
    blocks: int  # of the pool
    k: int
    v: int
    scales: int = 0


@frozen
class Attended:
    """The operands of an attention, checked and broadcast."""

    q: Layout  # (batch..., l, e)
    k: Layout  # (batch..., s, e)
    v: Layout  # (batch..., s, ev)
    mask: Layout | None  # (batch..., l, s)
    look: Look = Look()
    lengths: Layout | None = None  # (batch...,), as the next two
    slopes: Layout | None = None
    sinks: Layout | None = None
    own: int = 0  # heads with keys of their own, where the last batch axis is of heads that share them
    # Of k and v that are cached; strides along positions then hold within a block.
    pages: Pages | None = None
    scales: Layout | None = None  # (2, batch..., s), of k and of v

    @property
    def is_cached(self) -> bool:
        """Whether k and v lie otherwise than q."""
        return self.pages is not None or self.scales is not None or self.k.dtype != self.q.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The result's, of which heads are one axis."""
        *batch, rows, _ = self.q.shape
        if self.own:
            batch[-2:] = (batch[-2] * batch[-1],)
        return (*batch, rows, self.v.shape[-1])

    @property
    def dtype(self) -> DType:
        return self.q.dtype

    @property
    def scores(self) -> tuple[int, ...]:
        return (*self.q.shape[:-1], self.k.shape[-2])

    @property
    def of_heads(self) -> tuple[tuple[int, Layout], ...]:
        """Numbers of each head, and their positions."""
        found = ((LENGTHS, self.lengths), (SLOPES, self.slopes), (SINKS, self.sinks))
        return tuple((position, layout) for position, layout in found if layout is not None)

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing but a mask and causality."""
        return self.look.is_plain and not self.of_heads
