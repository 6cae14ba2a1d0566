"""The source of any kernel in a dialect, generated or hand-written, without a device."""

from __future__ import annotations

from collections.abc import Sequence

from hologram.atlas.program import Launchable
from hologram.compiler.dialect import Dialect
from hologram.compiler.source.generator import Generator, generator
from hologram.foundation.dtypes import Number
from hologram.machine.limits import Limits


def listing(
    kernel: Launchable, dialect: Dialect, limits: Limits, grid: Sequence[int], scalars: Sequence[Number]
) -> str:
    """What a device of these limits would compile for a launch over a grid, its buffers as large as it reaches.

    Without scalars each counts as 1. Raises UnsupportedDType where the language lacks a type of the kernel.
    """
    return text(generator(kernel, dialect, limits), grid, scalars)


def text(written: Generator, grid: Sequence[int], scalars: Sequence[Number]) -> str:
    """As `listing`, of a kernel's generator."""
    return written.source(written.listed(grid, scalars)).text
