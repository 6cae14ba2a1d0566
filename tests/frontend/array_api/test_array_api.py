"""The module `hologram` as a namespace of the Python array API, version 2024.12."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hologram as hg
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from tests.needs import needs

# Without matrix decompositions; fft is a module of its own.
STANDARD = """
__array_api_version__ __array_namespace_info__ abs acos acosh add all any arange argmax argmin argsort asarray
asin asinh astype atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or
bitwise_right_shift bitwise_xor bool broadcast_arrays broadcast_to can_cast ceil clip complex64 complex128 concat
conj copysign cos cosh
count_nonzero cumulative_prod cumulative_sum diff divide e empty empty_like equal exp expand_dims expm1 eye
finfo flip float32 float64 floor floor_divide from_dlpack full full_like greater greater_equal hypot iinfo imag inf
int16 int32 int64 int8 isdtype isfinite isinf isnan less less_equal linspace log log10 log1p log2 logaddexp
logical_and logical_not logical_or logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum
moveaxis multiply nan negative newaxis nextafter nonzero not_equal ones ones_like permute_dims pi positive pow
prod real reciprocal remainder repeat reshape result_type roll round searchsorted sign signbit sin sinh sort sqrt
square squeeze stack std subtract sum take take_along_axis tan tanh tensordot tile tril triu trunc uint16
uint32 uint64 uint8 unique_all unique_counts unique_inverse unique_values unstack var vecdot where zeros
zeros_like
"""
REAL = [d for d in dtypes.COMPUTED if d is not dtypes.bf16]


@pytest.fixture(autouse=True)
def default(executor: hg.Executor) -> Iterator[None]:
    with hg.use_executor(executor):
        yield


def test_the_namespace_has_what_the_standard_names(executor: hg.Executor) -> None:
    x = hg.ones((2, 2))
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2024.12") is hg
    assert [name for name in STANDARD.split() if not hasattr(hg, name)] == []
    assert set(STANDARD.split()) - {"__array_api_version__", "__array_namespace_info__"} <= set(dir(hg))
    assert (x.device, x.mT.shape, hg.bool, hg.float32) == (
        x.to_device(x.device).device,
        (2, 2),
        hg.bool_,
        hg.f32,
    )
    with pytest.raises(ValueError, match="versions are"):
        x.__array_namespace__(api_version="1999.01")
    info = hg.__array_namespace_info__()
    assert info.devices() == [info.default_device()] == [x.device]
    assert info.default_dtypes()["integral"] is hg.int64 is hg.arange(2).dtype
    assert info.default_dtypes()["real floating"] is hg.float32 is hg.asarray(0.5).dtype
    assert info.dtypes(kind="unsigned integer") == {
        n: getattr(hg, n) for n in ("uint8", "uint16", "uint32", "uint64")
    }
    assert info.capabilities()["boolean indexing"]


@pytest.mark.parametrize("dtype", dtypes.COMPUTED, ids=repr)
def test_what_dtypes_hold(dtype: DType, executor: hg.Executor) -> None:
    if dtype.is_float:
        own, want = hg.finfo(dtype), ml_dtypes.finfo(dtype.numpy)
        assert (own.bits, own.eps, own.max) == (want.bits, float(want.eps), float(want.max))
        assert (own.min, own.smallest_normal, own.dtype) == (
            float(want.min),
            float(want.smallest_normal),
            dtype,
        )
    elif dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        assert hg.iinfo(dtype) == (info.bits, info.max, info.min, dtype)
    kinds = {"bool", "signed integer", "unsigned integer", "integral", "real floating", "numeric"}
    if dtype is not dtypes.bf16:
        assert {k for k in kinds if hg.isdtype(dtype, k)} == {k for k in kinds if np.isdtype(dtype.numpy, k)}
    assert hg.isdtype(dtype, ("complex floating", dtype))
    assert not hg.isdtype(dtype, "complex floating")


def test_how_dtypes_combine(executor: hg.Executor) -> None:
    assert hg.result_type(hg.zeros(1), "i32", 3) is hg.f32
    assert hg.result_type(hg.i8, hg.u8, True) is hg.i16
    assert hg.result_type(hg.zeros(1, dtype="i32"), 0.5) is hg.f32
    assert hg.result_type(np.float64(1), hg.f32) is hg.f64
    assert [hg.result_type(*numbers) for numbers in ((True,), (1,), (1, 0.5), (1j, 2))] == [
        hg.bool,
        hg.i64,
        hg.f32,
        hg.c64,
    ]
    assert hg.can_cast(hg.i8, hg.i32)
    assert not hg.can_cast(hg.zeros(1, dtype="i32"), "i16")
    assert not hg.can_cast(hg.u64, hg.i64)
    for wrong, error in (
        (lambda: hg.finfo("i32"), hg.UnsupportedDType), (lambda: hg.iinfo("f32"), hg.UnsupportedDType),
        (lambda: hg.isdtype("f32", "floaty"), ValueError), (lambda: hg.result_type(), TypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            wrong()
    assert hg.astype(np.arange(3), "f16").dtype is hg.f16


def elements(dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    values = np.random.default_rng(7).integers(0, 5, shape)
    return (values % 2 if dtype is dtypes.bool_ else values).astype(dtype.numpy)


@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (3, 50), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("dtype", REAL, ids=repr)
def test_what_is_found_among_elements(dtype: DType, shape: tuple[int, ...], executor: hg.Executor) -> None:
    needs(executor, dtype)
    values = elements(dtype, shape)
    wide = np.zeros((2, *shape), dtype.numpy)
    wide[1] = values
    for x in (hg.asarray(values), hg.asarray(np.moveaxis(wide, 0, -1).copy())[..., 1]):
        for own, theirs in ((hg.nonzero(x), np.nonzero(values)), (hg.unique_all(x), np.unique_all(values))):
            for found, want in zip(own, theirs, strict=True):
                np.testing.assert_array_equal(found.to_numpy(), want, strict=True)
        assert hg.unique_counts(x)._fields == np.unique_counts(values)._fields
        np.testing.assert_array_equal(hg.unique_counts(x).counts.to_numpy(), np.unique_counts(values).counts)
        inverse = hg.unique_inverse(x)
        np.testing.assert_array_equal(inverse.values[inverse.inverse_indices].to_numpy(), values, strict=True)
        np.testing.assert_array_equal(hg.unique_values(x).to_numpy(), np.unique(values), strict=True)


@pytest.mark.parametrize("size", [255, 256, 257, 700, 5_000])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_positions_and_places_among_many(size: int, share: float, executor: hg.Executor) -> None:
    rng = np.random.default_rng(size)
    mask = rng.random(size) < share
    np.testing.assert_array_equal(hg.nonzero(hg.asarray(mask))[0].to_numpy(), np.flatnonzero(mask))
    values = np.sort(rng.integers(0, size, size)).astype(np.float32)
    for side in ("left", "right"):
        found = hg.searchsorted(hg.asarray(values), hg.asarray(values[mask]), side=side)
        np.testing.assert_array_equal(found.to_numpy(), np.searchsorted(values, values[mask], side=side))


def test_every_nan_is_its_own(executor: hg.Executor) -> None:
    found = hg.unique_all(hg.asarray([np.nan, 1.0, np.nan, 1.0]))
    assert found.values.shape == (3,)
    assert found.counts.tolist() == [2, 1, 1]
    assert sorted(found.indices.tolist()) == [0, 1, 2]


def test_how_many_are_found_cannot_be_traced(executor: hg.Executor) -> None:
    for function in (hg.nonzero, hg.unique_values, hg.unique_all):
        with pytest.raises(hg.TraceError):
            hg.jit(function)(hg.ones((3,)))
    with pytest.raises(hg.ShapeError, match="nonzero: a tensor of at least one axis"):
        hg.nonzero(hg.ones(()))


def test_every_number_is_real(executor: hg.Executor) -> None:
    x = executor.tensor(np.array([1.0, -2.0, np.nan], np.float32))
    for function in (hg.conj, hg.real):
        np.testing.assert_array_equal(function(x).to_numpy(), x.to_numpy())
        assert hg.jit(lambda t, f=function: f(t) + 1)(x).dtype == hg.f32
    np.testing.assert_array_equal(hg.imag(x).to_numpy(), np.zeros(3, np.float32))


@pytest.mark.parametrize("kind", [tuple, list, np.array, hg.asarray])
def test_every_element_has_its_own_number_of_repeats(executor: hg.Executor, kind: Any) -> None:
    x = np.arange(12).reshape(3, 4)
    t = executor.tensor(x)
    for counts, axis in (([2, 0, 1], 0), ([3], 1), (range(12), None), ([0] * 4, -1)):
        want = np.repeat(x, list(counts), axis)
        np.testing.assert_array_equal(hg.repeat(t, kind(list(counts)), axis=axis).to_numpy(), want)
        np.testing.assert_array_equal(t.repeat(repeats=kind(list(counts)), axis=axis).to_numpy(), want)
    assert hg.repeat(executor.zeros((0, 2)), kind([]) if kind in (tuple, list) else [], axis=0).shape == (
        0,
        2,
    )


def test_numbers_of_repeats_that_cannot_be_are_refused(executor: hg.Executor) -> None:
    x = executor.zeros((2, 3))
    with pytest.raises(ValueError, match="repeats must be 0 or more, got -1"):
        hg.repeat(x, [1, -1], axis=0)
    with pytest.raises(TypeError, match="repeats must be integers, got float64"):
        hg.repeat(x, [1.5, 1], axis=0)
    with pytest.raises(hg.ShapeError, match=r"the axis's 2 elements or 1, got shape \(3,\)"):
        hg.repeat(x, np.array([1, 2, 3]), axis=0)
    with pytest.raises(hg.TraceError):
        hg.jit(lambda x, n: hg.repeat(x, n, axis=0))(x, executor.tensor([1, 2]))


def test_several_tensors(executor: hg.Executor) -> None:
    a, b, c = np.arange(3), np.arange(4, dtype=np.float32), np.arange(2)
    for indexing in ("xy", "ij"):
        for arrays in ((a,), (a, b), (a, b, c), (a[:0], b)):
            want = np.meshgrid(*arrays, indexing=indexing)  # type: ignore[call-overload]
            for found, expected in zip(hg.meshgrid(*arrays, indexing=indexing), want, strict=True):
                np.testing.assert_array_equal(found.to_numpy(), expected)
    pair = hg.broadcast_arrays(a[:, None], b)
    assert [t.shape for t in pair] == [(3, 4), (3, 4)]
    assert hg.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    with pytest.raises(hg.ShapeError, match="broadcast_shapes: shapes must broadcast"):
        hg.broadcast_shapes((2,), (3,))
    x = hg.asarray(np.arange(12).reshape(3, 4))
    assert [t.tolist() for t in hg.unstack(x, axis=-1)] == x.T.tolist()
    jitted: Any = hg.jit(lambda t: (hg.unstack(t)[1] + 0, hg.meshgrid(t[0], t[:, 0])[1] + 0))
    assert jitted(x)[0].tolist() == [4, 5, 6, 7]
    assert jitted(x)[1].tolist() == hg.meshgrid(x[0], x[:, 0])[1].tolist()
    with pytest.raises(hg.ShapeError, match="meshgrid"):
        hg.meshgrid(x)
    with pytest.raises(ValueError, match="indexing must be"):
        hg.meshgrid(a, indexing="yx")


def test_einsum_and_tensordot_refuse(executor: hg.Executor) -> None:
    x = hg.ones((3, 4))
    for wrong, error, match in (
        (lambda: hg.einsum("ij,jk", x), ValueError, "letters for 1 operand"),
        (lambda: hg.einsum("ijk->i", x), hg.ShapeError, "must name every axis"),
        (lambda: hg.einsum("ij->ijk", x), ValueError, "name axes of the operands once"),
        (lambda: hg.einsum("ij,jk", x, x), hg.ShapeError, "broadcast"),
        (lambda: hg.tensordot(x, x, axes=((0,), (1,))), hg.ShapeError, "sizes of the axes"),
        (lambda: hg.tensordot(x, x, axes=3), hg.ShapeError, "axes must lie in"),
        (lambda: hg.searchsorted(x, hg.ones((2, 4))), hg.ShapeError, "one axis"),
        (lambda: hg.searchsorted(x[0], x, side="middle"), ValueError, "side must be"),
        (lambda: hg.reshape(x.T, (12,), copy=False), ValueError, "needs a copy"),
        (lambda: hg.nextafter(hg.astype(x, "f16"), 1.0), hg.UnsupportedDType, "must be f32 or f64, got f16"),
        (lambda: hg.cumulative_sum(x), hg.ShapeError, "an axis is needed"),
    ):  # fmt: skip
        with pytest.raises(error, match=match):
            wrong()
