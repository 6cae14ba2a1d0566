"""Maps of tensors, by which a GPU copies boxes of them to shared memory by itself (compute capability 9.0 on)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from hologram.backends.cuda.context import Context
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, Number
from hologram.machine.plan import TensorMap

MAP_BYTES = 128
TYPES = {dtypes.f16: "CU_TENSOR_MAP_DATA_TYPE_FLOAT16", dtypes.bf16: "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16"}


def encoded(
    context: Context, tensor: TensorMap, dtype: DType, address: int, scalars: Mapping[str, Number]
) -> bytes:
    """The parameter of a kernel for a buffer at that address.

    Boxes are swizzled as products from shared memory read them: their innermost axis takes 128 bytes. Raises
    HologramError for what the driver takes for no tensor.
    """
    driver = context.driver
    itemsize = dtype.itemsize
    made = context.call(
        driver.cuTensorMapEncodeTiled,
        getattr(driver.CUtensorMapDataType, TYPES[dtype]),
        len(tensor.sizes),
        address + int(scalars[tensor.offset]) * itemsize,
        [driver.cuuint64_t(int(scalars[name])) for name in tensor.sizes],
        [driver.cuuint64_t(int(scalars[name]) * itemsize) for name in tensor.strides],
        [driver.cuuint32_t(count) for count in tensor.box],
        [driver.cuuint32_t(1) for _ in tensor.sizes],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    return ctypes.string_at(int(made.getPtr()), MAP_BYTES)
