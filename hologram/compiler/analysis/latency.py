"""How many vectors of elements a loop should compute side by side, so that a chain of functions is not waited for.

A core finishes two results a cycle but takes four cycles for each, so about eight have to be under way. It finds them
by itself within some hundred instructions ahead: among the element's own that do not depend on one another, and in the
elements after it. A long chain of functions fills that window with one element, and waits.
"""

from __future__ import annotations

from collections.abc import Iterable

from hologram.atlas.program import Instruction
from hologram.atlas.ssa import mentions
from hologram.compiler.analysis.cost import instructions

UNDER_WAY = 8  # results that keep a core busy
WINDOW = 200  # instructions that a core looks ahead
MOST = 4  # vectors side by side: more need more registers than there are


def rounds(body: Iterable[Instruction]) -> int:
    """1, 2 or 4 vectors a round, for straight code; 1 where it branches."""
    depth: dict[int, int] = {}
    work = deepest = 0
    for i in body:
        if i.blocks:
            return 1
        cost = instructions(i)
        reach = cost + max((depth.get(v, 0) for v in mentions(i)), default=0)
        depth |= dict.fromkeys(i.results, reach)
        work, deepest = work + cost, max(deepest, reach)
    if work <= WINDOW // 2:
        return 1
    found = work / max(deepest, 1) * max(1.0, WINDOW / work)
    side_by_side = 1
    while side_by_side < MOST and found * side_by_side < UNDER_WAY:
        side_by_side *= 2
    return side_by_side
