"""What an operation's element costs to compute, and how much code it is."""

from __future__ import annotations

from functools import lru_cache

from hologram.atlas.builder import Builder
from hologram.atlas.opcodes import STRUCTURED, TRANSCENDENTALS, Opcode
from hologram.atlas.program import Access, Program
from hologram.compiler.analysis import cost
from hologram.compiler.functions.transcendental import every, expand
from hologram.compiler.fusion.graph import Node, Read
from hologram.compiler.fusion.reached import Reached
from hologram.compiler.pipeline import canonical
from hologram.foundation.dtypes import DType
from hologram.machine.layout import Layout

SHORT = 32  # instructions of what is made of coordinates, if it is to move into kernels
A_PIECE = 3  # instructions: whether an element is inside, and the choice
FUNCTIONS = TRANSCENDENTALS | {Opcode.POW}


def weight(node: Node) -> int:
    """The cost of one element of a node that can be fused, its operands given."""
    if node.pieces is not None:
        return A_PIECE * len(node.pieces.pieces)
    return sum(map(cost.instructions, _alone(node).body.walk()))


def instructions(node: Node) -> int:
    """How much code a node that can be fused becomes where the device has no functions of its own."""
    if node.pieces is not None:
        return A_PIECE * len(node.pieces.pieces)
    return sum(_length(i.opcode, i.type) if i.opcode in FUNCTIONS else 1 for i in _alone(node).body.walk())


@lru_cache(maxsize=256)
def _length(opcode: Opcode, dtype: DType) -> int:
    """Instructions that a function becomes."""
    b = Builder("weighed", rank=1)
    x = b.load(b.buffer("x", dtype, Access.READ), b.coordinate(0))
    b.emit(opcode, dtype, *([x, x] if opcode is Opcode.POW else [x]))
    return sum(1 for _ in expand(b.build(), every).body.walk())


def is_short(node: Node) -> bool:
    """Whether an element of what is made of coordinates is a few instructions, none of which waits for a loop."""
    program = _alone(node)
    return not program.opcodes & STRUCTURED and sum(map(cost.instructions, program.body.walk())) <= SHORT


def _alone(node: Node) -> Program:
    """One element of a node as a program."""
    b = Builder("weighed", rank=1, reduced=1)
    place = b.coordinate(0)
    if node.updating:  # a store at a position of its own
        return b.build()
    if node.placed:
        reads = [
            Reached(b, b.buffer(f"x{k}", o.layout.dtype, Access.READ), o.layout, {})
            if isinstance(o, Read)
            else o
            for k, o in enumerate(node.operands)
        ]
        at = [place] * max(node.layouts[0].ndim, 1)
        node.operation.made_at(b, at, reads, node.layouts[0].dtype, node.settings)
        return b.build()
    operands = [
        b.load(b.buffer(f"x{k}", i.dtype, Access.READ), place) if isinstance(i, Layout) else i
        for k, i in enumerate(node.inputs)
    ]
    node.operation.fused(b, operands, node.inputs, node.settings)
    program = b.build()
    return canonical(program) if Opcode.POW in program.opcodes else program  # most powers are a few products
