"""What users call for loops and choices; with it comes how transforms follow them."""

from __future__ import annotations

from hologram.frontend.control import derivatives
from hologram.frontend.control.branches import cond, switch
from hologram.frontend.control.scan import checkpoint, map_, scan
from hologram.frontend.control.while_loop import fori_loop, while_loop

map = map_
TRANSFORMS = (derivatives,)
__all__ = ["checkpoint", "cond", "fori_loop", "map", "scan", "switch", "while_loop"]
