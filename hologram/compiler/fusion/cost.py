"""What an operation's element costs to compute, in instructions; functions count as the polynomials they become."""

from __future__ import annotations

from hologram.atlas.builder import Builder
from hologram.atlas.opcodes import TRANSCENDENTALS, Opcode
from hologram.atlas.program import Access
from hologram.compiler.fusion.graph import Node
from hologram.layout import Layout

FUNCTION = 16
DIVISION = 4
FREE = frozenset({Opcode.CONSTANT, Opcode.LOAD, Opcode.COORDINATE, Opcode.CONVERT})


def weight(node: Node) -> int:
    """The cost of one element of a node that can be fused, its operands given."""
    b = Builder("weighed", rank=1, reduced=1)
    place = b.coordinate(0)
    operands = [
        b.load(b.buffer(f"x{k}", i.dtype, Access.READ), place) if isinstance(i, Layout) else i
        for k, i in enumerate(node.inputs)
    ]
    node.operation.fused(b, operands, node.inputs, node.settings)
    return sum(_cost(i.opcode) for i in b.build().body.walk())


def _cost(opcode: Opcode) -> int:
    if opcode in FREE:
        return 0
    if opcode in TRANSCENDENTALS or opcode is Opcode.POW:
        return FUNCTION
    return DIVISION if opcode in (Opcode.DIV, Opcode.REM) else 1
