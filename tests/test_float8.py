"""Floats of 8 bits, stored and converted as PyTorch does it: every code, and every place where rounding turns."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

import hologram as hg
from hologram.atlas import arithmetic
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from tests.needs import needs

EACH = pytest.mark.parametrize("dtype", dtypes.STORED, ids=repr)
CODES = np.arange(256, dtype=np.uint8)
NUMBERS = [d for d in dtypes.COMPUTED if d is not dtypes.bool_]


def theirs(x: np.ndarray, dtype: DType) -> np.ndarray:
    """The codes that PyTorch makes of an array."""
    return torch.from_numpy(x).to(getattr(torch, dtype.numpy_name)).view(torch.uint8).numpy()


def values(dtype: DType) -> np.ndarray:
    """The f32 of every code, by PyTorch."""
    return torch.from_numpy(CODES).view(getattr(torch, dtype.numpy_name)).float().numpy()


def borders(dtype: DType) -> np.ndarray:
    """Numbers, the middles between neighbours and beyond the largest, and what lies next to each, as f32."""
    known = np.unique(values(dtype)[np.isfinite(values(dtype))]).astype(np.float64)
    step = known[-1] - known[-2]
    beyond = known[-1] + step * np.array([0.5, 1, 2, 1e6])
    exact = np.concatenate([known, (known[1:] + known[:-1]) / 2, beyond, -beyond]).astype(np.float32)
    around = [np.nextafter(exact, np.float32(side)) for side in (np.inf, -np.inf)]
    extremes = np.array(
        [np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0, 1e-45, -1e-45, 1e-38, 3.4e38], np.float32
    )
    return np.concatenate([exact, *around, extremes])


def every_half() -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


@EACH
def test_every_code_becomes_its_number(dtype: DType, executor: hg.Executor) -> None:
    x = executor.tensor(CODES.view(dtype.numpy))
    want = values(dtype)
    np.testing.assert_array_equal(want, CODES.view(dtype.numpy).astype(np.float32))  # ml_dtypes agrees
    for target in (d for d in dtypes.COMPUTED if d in executor.limits.dtypes):
        got = x.astype(target).to_numpy()
        with np.errstate(invalid="ignore"):
            known = arithmetic.convert(target, want)
        assert got.dtype == known.dtype
        np.testing.assert_array_equal(arithmetic.wide(got), arithmetic.wide(known), err_msg=str(target))


@EACH
def test_numbers_become_the_codes_of_pytorch(dtype: DType, executor: hg.Executor) -> None:
    for x in (borders(dtype), every_half().astype(np.float32), every_half()):
        want = theirs(x, dtype)
        source = executor.tensor(x)
        np.testing.assert_array_equal(source.astype(dtype).to_numpy().view(np.uint8), want)
        with np.errstate(all="ignore"):
            assert np.array_equal(arithmetic.convert(dtype, x).view(np.uint8), want)  # Atlas's definition
        np.testing.assert_array_equal(
            hg.jit(lambda t: t.astype(dtype))(source).to_numpy().view(np.uint8), want
        )


@EACH
def test_every_bfloat16_becomes_the_code_of_pytorch(dtype: DType, executor: hg.Executor) -> None:
    bits = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16)
    want = bits.view(torch.bfloat16).to(getattr(torch, dtype.numpy_name)).view(torch.uint8).numpy()
    x = executor.tensor(bits.numpy().view(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(x.astype(dtype).to_numpy().view(np.uint8), want)


@EACH
@pytest.mark.parametrize("source", NUMBERS, ids=repr)
def test_casts_from_every_dtype(dtype: DType, source: DType, executor: hg.Executor) -> None:
    needs(executor, source)
    random = np.random.default_rng(8)
    if source.is_float:
        with np.errstate(over="ignore"):
            x = np.concatenate([borders(dtype), random.normal(0, 200, 5000)]).astype(source.numpy)
    else:
        low, high = int(source.lowest), int(source.highest)
        some = random.integers(max(low, -70_000), min(high, 70_000), 5000).tolist()
        x = np.array([*some, low, high, 0, 1], source.numpy)
    wide = x.astype(np.float32) if source.is_foreign else x
    got = executor.tensor(x).astype(dtype).to_numpy().view(np.uint8)
    np.testing.assert_array_equal(got, theirs(wide, dtype))


@EACH
def test_f64_is_rounded_once(dtype: DType, executor: hg.Executor) -> None:
    """PyTorch goes by way of f32, and rounds what lies next to a middle to it, and then to even."""
    needs(executor, dtypes.f64)
    middle = 1 + 2.0 ** -(dtype.mantissa + 1)
    x = np.array([middle - 2.0**-40, middle, middle + 2.0**-40])
    want = [1.0, 1.0, 1 + 2.0**-dtype.mantissa]
    assert executor.tensor(x).astype(dtype).astype("f32").tolist() == want
    assert theirs(x, dtype).view(dtype.numpy).astype(np.float32).tolist() == [1.0, 1.0, 1.0]


@EACH
def test_one_becomes_the_other(dtype: DType, executor: hg.Executor) -> None:
    (other,) = set(dtypes.STORED) - {dtype}
    got = executor.tensor(CODES.view(dtype.numpy)).astype(other).to_numpy().view(np.uint8)
    np.testing.assert_array_equal(got, theirs(values(dtype), other))


@EACH
def test_codes_move_as_they_are(dtype: DType, executor: hg.Executor) -> None:
    """NaNs keep their payloads: nothing on the way reads a number."""
    x, codes = executor.tensor(CODES.view(dtype.numpy)), CODES.reshape(16, 16)
    for found, want in (
        (x[::-3], CODES[::-3]),
        (x.reshape(16, 16).swapaxes(0, 1).contiguous(), codes.T),
        (hg.concat([x[3:8], x[250:]]), np.append(CODES[3:8], CODES[250:])),
        (hg.gather(x, executor.tensor(np.array([255, 0, 127])), dim=0), CODES[[255, 0, 127]]),
        (hg.where(executor.tensor(CODES > 100), x, x[:1]), np.where(CODES > 100, CODES, 0)),
        (x[executor.tensor(CODES % 3 == 0)], CODES[::3]),
        (x[0:0], CODES[0:0]),
        (x[200].clone(), CODES[200]),
        (hg.jit(lambda t: hg.flip(t)[5:])(x), CODES[::-1][5:]),
    ):
        np.testing.assert_array_equal(found.to_numpy().view(np.uint8), want)
    x[executor.tensor(np.array([1, 2]))] = x[5:7]
    assert x[:4].to_numpy().view(np.uint8).tolist() == [0, 5, 6, 3]


@EACH
def test_new_ones(dtype: DType, executor: hg.Executor) -> None:
    one = hg.ones((3, 2), dtype=dtype, device=executor)
    assert (one.dtype, one.buffer.nbytes) == (dtype, 6)
    assert one.astype("f32").tolist() == [[1.0, 1.0]] * 3
    x = executor.empty((5,), dtype)
    x[...] = 2.5
    assert x.astype("f32").tolist() == [2.5] * 5
    assert (
        hg.full((2,), float("nan"), dtype=dtype, device=executor).to_numpy().view(np.uint8).tolist()
        == [0x7F] * 2
    )
    made = hg.asarray([1.0, 1e9, -2.0], dtype=dtype, device=executor)
    np.testing.assert_array_equal(
        made.to_numpy().view(np.uint8), theirs(np.array([1.0, 1e9, -2.0], np.float32), dtype)
    )
    assert getattr(hg, dtype.numpy_name) is dtype is hg.dtypes.dtype(getattr(ml_dtypes, dtype.numpy_name))


@EACH
def test_arithmetic_is_refused(dtype: DType, executor: hg.Executor) -> None:
    x = hg.ones((4, 4), dtype=dtype, device=executor)
    for compute in (
        lambda: x + x,
        lambda: x * 2,
        lambda: -x,
        lambda: x < x,
        lambda: hg.sum(x),
        lambda: hg.exp(x),
        lambda: hg.sort(x),
        lambda: x @ x,
        lambda: hg.softmax(x),
        lambda: hg.jit(lambda t: t + t)(x),
        lambda: hg.ops.add(executor, x, x, x),
    ):
        with pytest.raises(hg.UnsupportedDType, match=rf"{dtype} is for storage and conversion"):
            compute()
    for mix in (lambda: hg.concat([x, x.astype("f32")]), lambda: hg.result_type(dtype, hg.f32)):
        with pytest.raises(hg.UnsupportedDType, match="convert one of them first"):
            mix()
    assert not hg.can_cast(dtype, hg.f32)
    assert hg.jit(lambda t: t.astype("f32") * 2)(x).tolist() == [[2.0] * 4] * 4  # converted, all is well


@EACH
def test_other_libraries_take_and_give_them(dtype: DType, executor: hg.Executor) -> None:
    own = getattr(torch, dtype.numpy_name)
    x = executor.tensor(CODES.view(dtype.numpy))
    taken = torch.from_dlpack(x)
    assert taken.dtype is own
    np.testing.assert_array_equal(taken.view(torch.uint8).numpy(), CODES)
    given = executor.from_dlpack(torch.from_numpy(CODES.copy()).view(own)[::2])
    assert given.dtype is dtype
    np.testing.assert_array_equal(given.to_numpy().view(np.uint8), CODES[::2])
    assert x.to_numpy().dtype == dtype.numpy == getattr(ml_dtypes, dtype.numpy_name)
