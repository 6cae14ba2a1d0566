"""What an operation's element costs to compute, in instructions."""

from __future__ import annotations

from hologram.atlas.builder import Builder
from hologram.atlas.program import Access
from hologram.compiler.analysis.cost import instructions
from hologram.compiler.fusion.graph import Node
from hologram.layout import Layout


def weight(node: Node) -> int:
    """The cost of one element of a node that can be fused, its operands given."""
    b = Builder("weighed", rank=1, reduced=1)
    place = b.coordinate(0)
    operands = [
        b.load(b.buffer(f"x{k}", i.dtype, Access.READ), place) if isinstance(i, Layout) else i
        for k, i in enumerate(node.inputs)
    ]
    node.operation.fused(b, operands, node.inputs, node.settings)
    return sum(instructions(i) for i in b.build().body.walk())
