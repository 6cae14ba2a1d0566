"""Padding, joining, taking, rolling and sorting with NumPy's arguments, and methods that view arrays anew."""

from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.frontend.numpy_names.padding import ALLOWED
from tests.frontend.numpy_names.alike import CUBE, FLAT, TABLE, WHOLE, alike, same
from tests.needs import needs

DRAWN = np.random.default_rng(13)


@pytest.mark.parametrize("mode", [m for m in ALLOWED if m != "empty"])
@pytest.mark.parametrize("x", [TABLE, WHOLE], ids=["f32", "i32"])
def test_pad(executor, mode, x):
    alike(executor, "pad", x, 3, mode)
    alike(executor, "pad", x, ((9, 4), (0, 11)), mode)
    each = ((1, 2), (3, 4))
    known = {"constant_values": each, "end_values": each, "stat_length": (2, 3), "reflect_type": "odd"}
    setting = ALLOWED[mode]
    if setting is not None:
        alike(executor, "pad", x, ((9, 4), (2, 11)), mode, **{setting: known[setting]})


def test_bad_pads(executor):
    x = executor.tensor(FLAT)
    bad: tuple[tuple[dict[str, Any], str], ...] = (
        ({"pad_width": 1.5}, "pad: pad_width must be integers"),
        ({"pad_width": 1, "mode": "edge", "stat_length": 2}, "pad: mode 'edge' takes no setting"),
        ({"pad_width": 1, "mode": "mean", "stat_length": 0}, "pad: stat_length must be at least 1"),
        ({"pad_width": 1, "mode": "reflect", "reflect_type": "even more"}, "pad: reflect_type must be"),
        ({"pad_width": ((1, 2), (3, 4))}, "pad: pad_width must be a number, a pair or 1 pairs"),
    )
    for given, error in bad:
        with pytest.raises((TypeError, ValueError), match=error):
            hg.pad(x, **given)
    with pytest.raises(TypeError, match="pad: either pad_width or padding"):
        hg.pad(x, 1, padding=1)


@pytest.mark.parametrize("dtype", ["f32", "i64", "c64"])
@pytest.mark.parametrize("name", ["concatenate", "stack"])
def test_joined_as_another_dtype(executor, name, dtype):
    needs(executor, dtype)
    given = [WHOLE, WHOLE[::-1].copy()]
    alike(executor, name, given, axis=1, dtype=hg.dtypes.dtype(dtype).numpy)
    out = executor.empty((8, 9), "i32")
    assert hg.concat([executor.tensor(x) for x in given], out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), np.concatenate(given))
    tables = [executor.tensor(TABLE)] * 2
    with pytest.raises(TypeError, match=rf"{name[:6]}.*: dtype i32 cannot hold f32"):
        getattr(hg, name)(tables, dtype="i32")


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_take_out_of_range(executor, mode):
    places = np.array([[-1, 3, 0], [2, -4, 1]]) if mode == "raise" else np.array([[-9, 4, 0], [70, -1, 3]])
    alike(executor, "take", TABLE, places, axis=0, mode=mode)
    alike(executor, "take", TABLE, places, axis=None, mode=mode)
    with pytest.raises(IndexError):
        hg.take(executor.tensor(TABLE), executor.tensor(np.array([4])), axis=0, mode="raise")
    with pytest.raises(ValueError, match="take: mode must be one of fill, raise, wrap, clip, got 'mirror'"):
        hg.take(executor.tensor(TABLE), executor.tensor(places), mode="mirror")
    with pytest.raises(hg.ShapeError, match=r"take: an axis with elements .* got shape \(0, 3\)"):
        hg.take(executor.zeros((0, 3)), executor.tensor(places), axis=0, mode="clip")


@pytest.mark.parametrize("mode", ["wrap", "clip", ("clip", "wrap")])
def test_coordinates_out_of_range(executor, mode):
    places = (np.array([-1, 2, 5]), np.array([3, -4, 1]))
    alike(executor, "ravel_multi_index", places, (2, 3), mode=mode)
    with pytest.raises(ValueError, match="mode must be 'raise', 'wrap' or 'clip', got 'round'"):
        hg.choose(executor.tensor([0]), [1], mode="round")
    with pytest.raises(
        ValueError, match="a function for each of 2 conditions, or one more, is needed, got 1"
    ):
        hg.piecewise(executor.tensor(FLAT), [FLAT < 0, FLAT > 1], [1])


@pytest.mark.parametrize(
    ("shift", "axis"),
    [((1, 2), (0, 1)), (3, (0, 1)), ((3, 1), 1), ((1, -2), (0, 0)), ((4, 50), None), ((), ()), (2, (1, -1))],
)
def test_roll_of_several(executor, shift, axis):
    alike(executor, "roll", TABLE, shift, axis)
    with pytest.raises(hg.ShapeError, match="roll: a shift for every axis is needed"):
        hg.roll(executor.tensor(TABLE), shift=(1, 2, 3), axis=(0, 1))


def test_complex_order(executor):
    parts = [0.0, 1.0, -1.0, np.nan, np.inf, -0.0]
    z = np.array([complex(a, b) for a in parts for b in parts], np.complex64)
    x = executor.tensor(DRAWN.permutation(z))
    want = np.sort(z)
    for got in (hg.sort(x), x[hg.argsort(x)], hg.flip(hg.sort(x, descending=True))):
        np.testing.assert_array_equal(got.to_numpy(), want)
    known = DRAWN.permutation(z[~np.isnan(z)])
    alike(executor, "unique", np.concatenate([known, known[:5]]), return_counts=True, return_inverse=True)
    for side in ("left", "right"):
        alike(executor, "searchsorted", want, z, side=side)
    alike(executor, "isin", z, known[:4])
    alike(executor, "intersect1d", known, known[3:7], return_indices=True)
    with pytest.raises(hg.UnsupportedDType, match="searchsorted: complex numbers"):
        hg.searchsorted(x, x, nan_last=False)


def test_methods_of_arrays(executor):
    x, z = executor.tensor(CUBE), executor.tensor(np.array([1 + 2j], np.complex64))
    same(x.swapaxes(0, 2), CUBE.swapaxes(0, 2))
    same(x.diagonal(1, 1, 2), CUBE.diagonal(1, 1, 2))
    same(x.trace(0, 1, 2), CUBE.trace(0, 1, 2))
    same((x > 0).nonzero(), (CUBE > 0).nonzero())
    same(z.conjugate(), np.array([1 - 2j], np.complex64))
    assert x.itemsize == 4
    z.view("float32")[0] = 5.0  # the same memory
    assert z.tolist() == [5 + 2j]
    same(x.view(np.complex64), CUBE.view(np.complex64))
    with pytest.raises(hg.UnsupportedDType, match=r"view: f32 of shape \(2, 3, 4\) cannot be seen as i32"):
        x.view("int32")
    assert hg.arange(executor.tensor(3)).tolist() == [0, 1, 2]
    for repetitions in ((2, 1, 1, 1), (1, 1, 1)):
        tiled = hg.tile(x, repetitions)
        tiled[...] = 0
        assert tiled.shape[-3:] == x.shape
        assert x.any()
    y = executor.zeros((3, 2))
    hg.put_along_axis(y, executor.tensor(np.array([[1], [0], [1]])), 5.0, 1)
    assert y.tolist() == [[0, 5], [5, 0], [0, 5]]
