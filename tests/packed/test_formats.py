"""Formats of packed weights: what gguf's reference makes of GGUF's blocks, bit for bit, on every backend."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.opset.packed.formats import FORMATS, format_of
from hologram.opset.packed.gguf import KINDS, planes_of_gguf
from hologram.opset.packed.repacking import packed_codes, unpacked_codes, weights_of
from tests.packed.blocks import blocks, reference, same_bits

SHAPE = (9, 512)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_those_of_gguf(kind, executor):
    data = blocks(np.random.default_rng(1), kind, *SHAPE)
    packed = hg.Packed.from_gguf(data, kind, SHAPE, executor)
    assert same_bits(packed.dequantize().to_numpy(), reference(data, kind, SHAPE))


@pytest.mark.parametrize("kind", KINDS)
def test_special_scales_are_those_of_gguf(kind):
    # In NumPy: devices may flush what is denormal.
    for seed in range(20):
        data = blocks(np.random.default_rng(seed), kind, *SHAPE, special=True)
        planes = planes_of_gguf(data, kind, SHAPE)
        assert same_bits(weights_of(FORMATS[kind], planes, SHAPE[1]), reference(data, kind, SHAPE))


@pytest.mark.parametrize("kind", KINDS)
def test_special_scales_on_devices(kind, executor):
    data = blocks(np.random.default_rng(3), kind, *SHAPE, special=True)
    found = hg.Packed.from_gguf(data, kind, SHAPE, executor).dequantize().to_numpy()
    wanted = reference(data, kind, SHAPE)
    normal = ~(np.abs(wanted) < np.finfo(np.float32).tiny)
    assert same_bits(found[normal], wanted[normal])


@pytest.mark.parametrize("kind", KINDS)
def test_repacking_in_slabs_is_repacking_at_once(kind):
    data = blocks(np.random.default_rng(4), kind, *SHAPE)
    whole = planes_of_gguf(data, kind, SHAPE)
    for name, plane in planes_of_gguf(data, kind, SHAPE, at_once=2 * SHAPE[1]).items():
        assert np.array_equal(plane.view(np.uint8), whole[name].view(np.uint8)), name


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_codes_are_unpacked_as_they_were_packed(bits):
    codes = np.random.default_rng(5).integers(0, 1 << bits, (3, 96), dtype=np.uint8)
    words = packed_codes(codes, bits)
    assert words.shape == (3, 3 * bits)
    assert np.array_equal(unpacked_codes(words, bits), codes)


@pytest.mark.parametrize("name", ["Q5_K", "int4g20", "uint8", "f8e4m3g64", "i8", "int4mbf16g32"])
def test_planes_are_what_the_format_says(name):
    made = format_of(name).planes(3, 512)
    bits = 8 * sum(dtype.itemsize * np.prod(shape) for dtype, shape in made.values()) / (3 * 512)
    assert (
        bits
        < {"Q5_K": 5.7, "int4g20": 5.7, "uint8": 8.2, "f8e4m3g64": 8.6, "i8": 8.2, "int4mbf16g32": 5.1}[name]
    )


@pytest.mark.parametrize(
    "name", ["Q4", "int4g3", "int4g0", "f8e4m2", "int8g", "", "int5g32", "int8f32", "Q4_0f16"]
)
def test_unknown_formats_are_refused(name):
    with pytest.raises(hg.UnsupportedDType, match="packed: "):
        format_of(name)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("int8", 254),
        ("i8", 254),
        ("int4", 14),
        ("uint8", 255),
        ("uint4", 15),
        ("int4g32", 14),
        ("uint4g20", 15),
    ],
)
@pytest.mark.parametrize("columns", [96, 77, 1])
def test_integers_are_the_nearest(name, steps, columns, executor):
    weights = np.random.default_rng(6).normal(0, 1, (5, columns)).astype(np.float32)
    found = hg.Packed.quantize(weights, name, executor).dequantize().to_numpy()
    width = np.ptp(weights) if name[0] == "u" else 2 * np.abs(weights).max()
    assert np.abs(found - weights).max() <= (max(width, np.abs(weights).max()) / steps / 2) * 2.01


@pytest.mark.parametrize(("name", "digits"), [("f8e4m3", 4), ("f8e5m2", 3), ("f8e4m3g32", 4)])
def test_floats_of_8_bits_are_the_nearest(name, digits, executor):
    weights = np.random.default_rng(7).uniform(0.1, 1, (5, 70)).astype(np.float32)
    found = hg.Packed.quantize(weights, name, executor).dequantize().to_numpy()
    assert (np.abs(found - weights) / weights).max() <= 2.0**-digits * 1.01


def test_zeros_stay_zeros(executor):
    for name in ("int8", "uint4", "f8e5m2", "int4g8"):
        packed = hg.Packed.quantize(np.zeros((2, 40)), name, executor)
        assert not packed.dequantize().to_numpy().any()


def test_what_does_not_fit_is_refused(executor):
    data = blocks(np.random.default_rng(8), "Q4_K", 2, 256)
    with pytest.raises(hg.ShapeError, match="whole blocks of 256"):
        hg.Packed.from_gguf(data, "Q4_K", (2, 128), executor)
    with pytest.raises(hg.ShapeError, match="288 bytes of uint8, got 287"):
        hg.Packed.from_gguf(data[:-1], "Q4_K", (2, 256), executor)
    with pytest.raises(hg.UnsupportedDType, match="must be one of"):
        hg.Packed.from_gguf(data, "IQ1_S", (2, 256), executor)
    with pytest.raises(hg.UnsupportedDType, match="from_gguf"):
        hg.Packed.quantize(np.zeros((2, 256)), "Q4_K", executor)
    planes = planes_of_gguf(data, "Q4_K", (2, 256))
    with pytest.raises(hg.ShapeError, match="has the planes codes, scales, factors"):
        hg.Packed.from_planes({"codes": planes["codes"]}, "Q4_K", (2, 256), executor)
    with pytest.raises(hg.ShapeError, match="scales of Q4_K 2 x 256 must be f16 of shape"):
        hg.Packed.from_planes(planes | {"scales": planes["scales"][:, :1]}, "Q4_K", (2, 256), executor)
