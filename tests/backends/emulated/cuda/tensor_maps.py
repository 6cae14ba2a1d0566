"""The driver's maps of tensors, with all that its documents ask of them."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Any

from cuda.bindings import driver as real  # pyright: ignore[reportAttributeAccessIssue]

from tests.backends.emulated.cuda.machine import Machine, S
from tests.backends.emulated.cuda.memory import Misuse

# As tests/shaders/emulation/bulk_units.h reads a map.
FORM, MAP_BYTES, MAGIC = "<6I 6Q", 128, 0x7E4503A9
TYPES = real.CUtensorMapDataType
ITEM_BYTES = {TYPES.CU_TENSOR_MAP_DATA_TYPE_FLOAT16: 2, TYPES.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: 2}
MOST_SIZE, MOST_STRIDE, MOST_BOX = 1 << 32, 1 << 40, 256
SWIZZLED_BYTES = 128


@dataclass(frozen=True)
class Extent:
    """The memory that a map reaches."""

    address: int
    nbytes: int


class TensorMaps(Machine):
    """See cuda.bindings.driver, of which the function has the arguments and answers."""

    def cuTensorMapEncodeTiled(
        self, kind: Any, rank: int, address: Any, sizes: Any, strides: Any, box: Any, steps: Any, *how: Any
    ) -> Any:
        interleave, swizzle, _, fill = how
        sizes, strides, box, steps = ([int(n) for n in axes] for axes in (sizes, strides, box, steps))
        item, address = ITEM_BYTES[kind], int(address)
        sound = (
            self.attributes["COMPUTE_CAPABILITY_MAJOR"] >= 9,
            rank == 3 == len(sizes) == len(strides) + 1 == len(box) == len(steps),  # of those there are
            address > 0 and address % 16 == 0,
            all(0 < n <= MOST_SIZE for n in sizes),
            all(0 < n < MOST_STRIDE and n % 16 == 0 for n in strides),
            # Each stride is that before times the size before, with what lies between.
            strides[0] >= sizes[0] * item and strides[1] >= strides[0] * sizes[1],
            strides[1] % strides[0] == 0,
            all(0 < n <= MOST_BOX for n in box) and box[0] * item % 16 == 0,
            box[0] * item <= SWIZZLED_BYTES,
            steps == [1] * rank,
            interleave == real.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle == real.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            fill == real.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        if not all(sound):
            wrong = [k for k, holds in enumerate(sound) if not holds]
            raise Misuse(
                f"cuTensorMapEncodeTiled: {sizes} every {strides}, boxes of {box}: against rules {wrong}"
            )
        content = struct.pack(FORM, MAGIC, item, *box, 0, address, *sizes, *strides).ljust(MAP_BYTES, b"\0")
        reached = sum((n - 1) * s for n, s in zip(sizes, (item, *strides), strict=True)) + item
        self.tensor_maps[content] = Extent(address, reached)
        made = real.CUtensorMap()
        ctypes.memmove(int(made.getPtr()), content, MAP_BYTES)
        return S.CUDA_SUCCESS, made
