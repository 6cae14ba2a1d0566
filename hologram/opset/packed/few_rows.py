"""Products of few rows with packed weights by code of a backend's own, where it has it (Limits.own_packed)."""

from __future__ import annotations

from collections.abc import Sequence

from hologram.machine.plan import Target
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.packed.formats import Format

STEM = "packed_product"
MOST_ROWS = 16  # of x, that read the planes themselves


def add_tile(
    steps: Steps,
    x: Place,
    format: Format,
    planes: Sequence[Place | None],
    out: Place,
    sizes: tuple[int, int, int],
    target: Target,
) -> bool:
    """Appends a product of `sizes` (rows of x, rows and columns of the weights); False where there is no such code."""
    return False
