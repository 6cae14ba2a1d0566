"""Random blocks of GGUF's kinds, with scales that matter, and what gguf's own reference makes of them."""

from __future__ import annotations

import numpy as np
from gguf import GGMLQuantizationType, quants

from hologram.opset.packed.gguf import KINDS

# Where the halves of a block that are floats begin.
SCALES = {
    "Q8_0": (0,), "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,),
    "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "MXFP4": (),
}  # fmt: skip
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 6e-8, -3e-5, 65504.0], np.float16)


def blocks(rng: np.random.Generator, kind: str, rows: int, columns: int, special: bool = False) -> np.ndarray:
    """Bytes of a matrix: random codes, with scales about 0.01, or any bytes at all and special ones where asked."""
    size, nbytes = KINDS[kind].size, KINDS[kind].nbytes
    data = rng.integers(0, 256, (rows * columns // size, nbytes), dtype=np.uint8)
    count = data.shape[0]
    for first in SCALES[kind]:
        numbers = rng.normal(0, 0.01, count).astype(np.float16)
        if special:
            numbers = np.where(
                rng.random(count) < 0.5, rng.choice(SPECIAL, count), data[:, :2].view("<f2")[:, 0]
            )
        data[:, first : first + 2] = numbers[:, None].view(np.uint8)
    if kind == "MXFP4" and not special:
        data[:, 0] = rng.integers(116, 124, count)
    return data.reshape(-1)


def reference(data: np.ndarray, kind: str, shape: tuple[int, int]) -> np.ndarray:
    """The weights, as the package gguf computes them."""
    with np.errstate(all="ignore"):
        found = quants.dequantize(data.reshape(shape[0], -1), getattr(GGMLQuantizationType, kind))
    return np.asarray(found, np.float32).reshape(shape)


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether all elements are the same, to the bit; any NaN is any other."""
    nan = np.isnan(one) & np.isnan(other)
    return one.shape == other.shape and bool(np.all((one.view(np.uint32) == other.view(np.uint32)) | nan))
