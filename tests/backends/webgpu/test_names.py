"""Names that WGSL reserves."""

from __future__ import annotations

import numpy as np
import pytest

from hologram.atlas.builder import Builder
from hologram.atlas.program import Access
from hologram.foundation.dtypes import f16, f32, i8


@pytest.mark.parametrize("dtype", [f32, f16, i8])
def test_a_buffer_called_out(device, upload, download, whole, dtype):
    b = Builder("atlas_sum")
    x, out, i = b.buffer("in", dtype, Access.READ), b.buffer("out", dtype, Access.WRITE), b.coordinate(0)
    b.store(out, i, b.load(x, i) + b.load(x, i))
    values = np.arange(63).astype(dtype.numpy)
    memories = upload(values), upload(np.zeros_like(values))
    device.compile(b.build()).bind(whole(*memories), (), (63,))()
    np.testing.assert_array_equal(download(memories[1], values), values + values)
