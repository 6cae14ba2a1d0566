"""Kernels that get maps of tensors and ask for more shared memory, on a CUDA device."""

from __future__ import annotations

import numpy as np
import pytest

from hologram.backends.cuda.device import CudaDevice
from hologram.backends.cuda.launches import graph
from hologram.foundation import dtypes
from hologram.machine.layout import Layout
from hologram.opset.tiles import product_bulk
from hologram.opset.tiles.product_kernel import Product


def test_a_product_of_what_the_device_copies(device: CudaDevice, upload, download, whole) -> None:
    """Launched one by one, and by a graph."""
    if not device.limits.bulk_bytes:
        pytest.skip("the device has no products of what bulk copies bring")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, s).astype(np.float16) for s in ((72, 136), (136, 160)))
    out = np.zeros((72, 160), np.float16)
    left, right, result = (Layout.contiguous(dtypes.f16, (1, *x.shape)) for x in (a, b, out))
    (candidate, *_) = product_bulk.tiles(dtypes.f16, device.limits)
    tile, scalars = product_bulk.tile(candidate, Product(left, right, result), a.shape[1], None)
    memories = [upload(x) for x in (a, b, out)]
    launch = device.compile(tile).bind(whole(*memories), scalars, (1, 1, 1))
    run = device.sequence([launch, launch])
    for _ in range(graph.CALLS_BEFORE + 2):
        device.write(memories[2], 0, memoryview(out).cast("B"))
        run()
        np.testing.assert_array_equal(download(memories[2], out), a @ b)
