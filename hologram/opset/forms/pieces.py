"""Results made of operands that lie side by side in them: what padding, joining and overwriting have in common."""

from __future__ import annotations

from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout


@frozen
class Piece:
    """An operand, by its number, whose elements are the result's from `start` on.

    `layout` is the operand's, over as many axes as the result has.
    """

    operand: int
    start: tuple[int, ...]
    layout: Layout


@frozen
class Pieces:
    """Later pieces lie over earlier ones; where there is none, all elements are the number that `rest` names.

    `rest` is the name of an attribute; without one the first piece is everywhere.
    """

    pieces: tuple[Piece, ...]
    rest: str = ""
