"""Kernels that are text: what is checked before a backend binds them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hologram.backends.cuda import reference as usual
from hologram.backends.cuda.dialect import cuda
from hologram.compiled.text_kernel import TextKernel
from hologram.compiler.scheduling.schedule import most_lanes
from hologram.compiler.source.generator import generator
from hologram.foundation.errors import ShapeError
from hologram.machine.kernel import Binding, Launch, nothing
from tests.compiler.source.test_shader import bias_relu, epilogue, tile

ITEM = 4


class Bound(TextKernel):
    """Launches nothing."""

    def launch(self, bindings: Any, scalars: Any, grid: Any, lengths: Any) -> Launch:
        return nothing


@pytest.mark.parametrize(("elements", "fits"), [(most_lanes(32), True), (2**32, False)])
def test_places_that_an_epilogue_reads_are_counted_in_32_bits(elements: int, fits: bool) -> None:
    kernel = tile(epilogue(bias_relu))
    made = Bound(kernel, usual.LIMITS, generator(kernel, cuda(), usual.LIMITS))
    small, large = (Binding(SimpleNamespace(size=n), 0, n) for n in (ITEM * 64, ITEM * elements))
    if fits:
        assert made.bind([small, small, large], (1, 1.0), (1, 1, 1)) is nothing
        return
    with pytest.raises(ShapeError, match=f"its epilogue reads .* at most, got {elements}"):
        made.bind([small, small, large], (1, 1.0), (1, 1, 1))
    made.bind([large, large, small], (1, 1.0), (1, 1, 1))  # the tile's own positions are its own affair
