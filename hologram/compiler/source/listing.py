"""The source of any kernel in a dialect, generated or hand-written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hologram.atlas.program import Program
from hologram.compiler.lowering.lower import lower
from hologram.compiler.source.codegen import generate
from hologram.compiler.source.dialect import Dialect
from hologram.compiler.source.shader import load
from hologram.limits import Limits
from hologram.plan import Tile


def listing(kernel: Program | Tile, dialect: Dialect, limits: Limits, grid: Sequence[int]) -> str:
    """What a device of these limits would compile for a launch over a grid.

    Raises UnsupportedDType where the language lacks a type of the kernel.
    """
    if isinstance(kernel, Program):
        return generate(lower(kernel, dialect), dialect, limits, grid=grid).text
    if kernel.epilogue is not None:
        kernel = replace(kernel, epilogue=lower(kernel.epilogue, dialect))
    return load(kernel, dialect).text
