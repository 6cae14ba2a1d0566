"""Every tile of products on a CUDA device, those that no default takes at a test's sizes too."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hologram.backends.cuda.device import CudaDevice
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.machine.layout import Layout
from hologram.opset.tiles import product_tile

SIZES = (1, 130, 192, 136)  # tails along every axis, lines of whole pieces of 16 bytes
EMULATED = 9  # where clang compiles each: one in so many


@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f16, dtypes.bf16], ids=str)
def test_products(device: CudaDevice, upload, download, whole, dtype: DType, crossed: bool) -> None:
    """In f32, f16 and bf16 all of these sums are exact."""
    _, m, k, n = SIZES
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-1, 2, shape).astype(dtype.numpy) for shape in ((1, m, k), (1, k, n)))
    left, out = (Layout.contiguous(dtype, shape) for shape in ((1, m, k), (1, m, n)))
    right = (
        Layout.contiguous(dtype, (1, n, k)).permute((0, 2, 1))
        if crossed
        else Layout.contiguous(dtype, (1, k, n))
    )
    x, y = (upload(np.ascontiguousarray(i).view(np.uint8)) for i in (a, b.swapaxes(1, 2) if crossed else b))
    wanted = (a[0].astype(np.float32) @ b[0].astype(np.float32)).astype(dtype.numpy)
    product = product_tile.Product(left, right, out)
    known = {c for c in product_tile.candidates(SIZES, dtype, device.limits) if c.parts == 1}
    own = sorted((c for c in known if math.prod(c.threads)), key=str)  # no library of the vendor's
    assert own
    for candidate in own[:: EMULATED if "emulated" in device.info.name else 1]:
        z = upload(np.full((m, n), 7).astype(dtype.numpy).view(np.uint8))
        tile, scalars = product_tile.of(candidate).tile(candidate, product, None)
        grid = product_tile.of(candidate).grid(candidate, SIZES)
        device.compile(tile).bind(whole(x, y, z), scalars, grid)()
        found = download(z, wanted.view(np.uint8)).view(dtype.numpy)
        np.testing.assert_array_equal(found, wanted, str(candidate))
