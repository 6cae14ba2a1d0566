"""Where NumPy's semantics are easily missed: bools as numbers, numbers a dtype cannot hold, infinities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hologram as hg
from hologram.atlas.builder import Builder
from hologram.atlas.program import Access
from hologram.foundation.dtypes import bf16, f32
from tests.needs import needs

U8 = np.array([1, 200, 255], np.uint8)
I8 = np.array([-128, -1, 127], np.int8)
U64 = np.array([0, 2**63, 2**64 - 1], np.uint64)
F32 = np.array([-1.5, np.nan, 3.0, np.inf, -np.inf, -0.0], np.float32)
TRUTH = np.array([[True, False], [True, True]])

BEYOND = (2**40, -1, -(2**40), 2**63, 2**64, -(2**63) - 1, 10**400)


def comparisons(m: Any) -> tuple[Callable[..., Any], ...]:
    return m.equal, m.not_equal, m.less, m.less_equal, m.greater, m.greater_equal


# The same expression of arrays and of tensors; `m` is the module that computes.
EXPRESSIONS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "number too large for ==": (lambda m, x: x == 300, (U8,)),
    "number too large for <": (lambda m, x: x < 300, (U8,)),
    "number too small for >": (lambda m, x: x > -1, (U8,)),
    "number too small for i8": (lambda m, x: m.less_equal(-129, x), (I8,)),
    "lowest number of i8": (lambda m, x: x == -128, (I8,)),
    "beyond i64": (
        lambda m, x: [c(x, n) for c in comparisons(m) for n in BEYOND],
        (np.array([-(2**63), 0, 2**63 - 1]),),
    ),
    "beyond i32": (
        lambda m, x: [c(n, x) for c in comparisons(m) for n in BEYOND],
        (np.array([-(2**31), 2**31 - 1], "i4"),),
    ),
    "beyond u64": (lambda m, x: [c(x, n) for c in comparisons(m) for n in BEYOND], (U64,)),
    "beyond bool": (lambda m, x: [c(x, n) for c in comparisons(m) for n in (2, -1, 2**40)], (TRUTH,)),
    "largest number of u64": (lambda m, x: x == 2**64 - 1, (U64,)),
    "bool + bool": (lambda m, x: x + x.T, (TRUTH,)),
    "bool * bool": (lambda m, x: x * x.T, (TRUTH,)),
    "bool + number": (lambda m, x: x + 1, (TRUTH,)),
    "infinite integers": (lambda m, x: m.isinf(x), (U64,)),
    "finite integers": (lambda m, x: m.isfinite(x), (I8,)),
    "infinite bools": (lambda m, x: m.isinf(x), (TRUTH,)),
    "choice between numbers": (lambda m, x: m.where(x, 1, -2), (TRUTH,)),
    "choice between bools": (lambda m, x: m.where(x, False, True), (TRUTH,)),
    "plus": (lambda m, x: +x, (I8,)),
    "remainders of -0.0": (lambda m, x: m.signbit(x % 3.0), (F32[-1:],)),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_as_in_numpy(name: str, executor: hg.Executor) -> None:
    expression, arrays = EXPRESSIONS[name]
    found, wanted = expression(hg, *map(executor.tensor, arrays)), expression(np, *arrays)
    for got, want in zip(found, wanted, strict=True) if isinstance(found, list) else [(found, wanted)]:
        np.testing.assert_array_equal(got.to_numpy(), want)
        assert got.dtype == hg.dtypes.dtype(want.dtype)


SPECIAL = np.array([1.5, np.inf, -np.inf, np.nan, 0.0, -0.0, -2.0, 3e38])
OF_ITSELF = {
    "difference": (lambda t: t - t, lambda x: x - x),
    "quotient": (lambda t: t / t, lambda x: x / x),
    "nothing of it": (lambda t: t * 0, lambda x: x * 0),
    "squared difference": (lambda t: hg.squared_difference(t, t), lambda x: x - x),
    "loss": (lambda t: hg.mse_loss(t, t), lambda x: np.float64(np.nan)),
    "of views": (lambda t: t[1:] - t[1:], lambda x: x[1:] - x[1:]),
}


@pytest.mark.parametrize("dtype", hg.dtypes.FLOATS, ids=str)
@pytest.mark.parametrize("name", OF_ITSELF)
def test_an_operand_bound_twice_is_a_number_only_where_it_is_one(
    name: str, dtype: hg.dtypes.DType, executor: hg.Executor
) -> None:
    needs(executor, dtype)
    ours, numpy = OF_ITSELF[name]
    with np.errstate(all="ignore"):
        x = SPECIAL.astype(dtype.numpy)
        want = numpy(x.astype(np.float64))
    np.testing.assert_array_equal(ours(executor.tensor(x)).to_numpy().astype(np.float64), want)
    if name == "difference":
        t = executor.tensor(x)
        t -= t
        np.testing.assert_array_equal(t.to_numpy().astype(np.float64), want)


def test_an_element_written_and_read_again_is_a_number_only_where_it_is_one(executor: hg.Executor) -> None:
    """A driver that forwards what was stored knows that the two are one value."""
    b = Builder("atlas_forward_f32")
    x, z = b.buffer("x", f32, Access.READ), b.buffer("z", f32, Access.WRITE)
    y, i = b.buffer("y", f32, Access.READ_WRITE), b.coordinate(0)
    b.store(y, i, b.load(x, i))
    b.store(z, i, b.load(y, i) - b.load(x, i))
    values = SPECIAL.astype(np.float32)
    buffers = {name: executor.allocate(8) for name in "xyz"}
    buffers["x"].from_numpy(values)
    executor.run(b.build(), buffers, lanes=8)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(buffers["z"].to_numpy(), values - values)


def between(dtype: hg.dtypes.DType) -> np.ndarray:
    """The f64 halfway between all neighbours of a 16-bit dtype and just beside that, and what is far out."""
    largest = int(np.array(ml_dtypes.finfo(dtype.numpy).max).view(np.uint16))
    finite = np.arange(largest + 1, dtype=np.uint16).view(dtype.numpy).astype(np.float64)
    above = np.append(finite[1:], 2 * finite[-1] - finite[-2])
    middle = (finite + above) / 2
    near = [middle, np.nextafter(middle, np.inf), np.nextafter(middle, 0), middle * (1 + 2.0**-40)]
    near += [middle * (1 - 2.0**-40), finite, np.nextafter(finite, np.inf)]
    far = np.array([0.0, 5e-324, 1e-300, 1e-46, 1e-41, 3.4028235677973366e38, 1e39, 1e300, np.inf, np.nan])
    positive = np.concatenate([*near, far])
    return np.concatenate([positive, -positive])


def nearest_even(x: np.ndarray, dtype: hg.dtypes.DType) -> np.ndarray:
    """x as f64 that the dtype holds: whole multiples of its unit, which np.rint rounds to even."""
    about = ml_dtypes.finfo(dtype.numpy)
    unit = np.maximum(np.frexp(x)[1] - 1, about.minexp) - about.nmant
    with np.errstate(invalid="ignore"):
        whole = np.ldexp(np.rint(np.ldexp(x, -unit)), unit)
    return np.where(np.abs(whole) > float(about.max), np.copysign(np.inf, x), whole)


@pytest.mark.parametrize("dtype", [hg.dtypes.f16, hg.dtypes.bf16], ids=str)
def test_f64_is_rounded_once(dtype: hg.dtypes.DType, executor: hg.Executor) -> None:
    needs(executor, hg.f64)
    x = between(dtype)
    want = nearest_even(x, dtype)
    if dtype is hg.dtypes.f16:
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(want, x.astype(np.float16).astype(np.float64))
    t = executor.tensor(x)
    fused = hg.jit(lambda t: (t * 2.0).astype(dtype))
    for got in (t.astype(dtype), fused(executor.tensor(x / 2))):
        got = got.to_numpy().astype(np.float64)
        wrong = (got != want) & ~(np.isnan(got) & np.isnan(want)) | (np.signbit(got) != np.signbit(want)) & (
            got == 0
        )
        assert not wrong.any(), (x[wrong][:4], got[wrong][:4], want[wrong][:4])


def test_a_scalar_is_rounded_once(executor: hg.Executor) -> None:
    b = Builder("atlas_fill_bf16")
    b.store(b.buffer("x", bf16, Access.WRITE), b.coordinate(0), b.scalar("y", bf16))
    x = executor.allocate(3, dtype=bf16)
    executor.run(b.build(), {"x": x}, lanes=3, y=1 + 2**-8 + 2**-40)
    assert x.to_numpy().astype(np.float64).tolist() == [1 + 2**-7] * 3


def test_bools_have_no_difference(executor: hg.Executor) -> None:
    x = executor.tensor(TRUTH)
    with pytest.raises(
        hg.UnsupportedDType, match="subtract: dtype must be int or uint or float or complex, got bool"
    ):
        hg.subtract(x, x)


@pytest.mark.parametrize(
    ("row", "want"),
    [
        ([-np.inf, -np.inf], -np.inf),
        ([np.inf, 1.0], np.inf),
        ([-np.inf, 1.0], 1.0),
        ([np.inf, -np.inf], np.inf),
        ([np.nan, np.inf], np.nan),
    ],
)
def test_logsumexp_of_infinities(executor: hg.Executor, row: list[float], want: float) -> None:
    got = hg.logsumexp(executor.tensor(np.array(row, np.float32)))
    np.testing.assert_array_equal(got.to_numpy(), np.float32(want))


@pytest.mark.parametrize("dtype", [np.int64, np.uint32])
def test_positions_out_of_range_do_not_wrap(executor: hg.Executor, dtype: type) -> None:
    x = executor.tensor(np.arange(1, 6, dtype=np.float32))
    far = [0, 2**32 - 1, 2**31, 4] if dtype is np.uint32 else [0, 2**32 + 1, -(2**32) + 1, 4]
    index = executor.tensor(np.array(far, dtype))
    want = [1, 0, 0, 5]
    np.testing.assert_array_equal(hg.index_select(x, index).to_numpy(), want)
    np.testing.assert_array_equal(hg.gather(x, index, dim=0).to_numpy(), want)
    ones = executor.ones((4,))
    np.testing.assert_array_equal(hg.scatter_add(x, index, ones, dim=0).to_numpy(), [2, 2, 3, 4, 6])


def test_rows_past_32_bits(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, columns = 2**14 + 1, 2**18
    monkeypatch.setenv("HOLOGRAM_CPU_OPTIMISE", "1")  # for 8 billion elements
    with hg.Executor(backend) as executor:
        x = executor.ones((1, 1), hg.u8).expand(rows, columns)
        assert hg.sum(x).item() == rows * columns
        if executor.limits.host_resident:
            assert hg.mean(x).item() == 1.0
        else:  # its index has 32 bits
            with pytest.raises(hg.ShapeError, match=r"atlas_mean_f32.*: this device counts .* in 32 bits"):
                hg.mean(x)
        with pytest.raises(hg.ShapeError, match="argmax: a row may have 4294967295 elements"):
            hg.argmax(x)


def test_repr_of_a_freed_tensor(executor: hg.Executor) -> None:
    x = executor.ones((2,))
    x.buffer.free()
    assert repr(x) == "Tensor(freed, shape=(2,), dtype=f32)"


@pytest.mark.parametrize("dtype", [hg.f32, hg.f16, hg.bf16])
def test_random_numbers_stay_below_the_end(executor: hg.Executor, dtype: hg.dtypes.DType) -> None:
    x = hg.random_uniform(executor, shape=(100_000,), dtype=dtype)
    assert float(hg.max(x).item()) < 1.0
    assert float(hg.min(x).item()) >= 0.0


@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan")])
def test_dropout_refuses_what_is_no_probability(executor: hg.Executor, p: float) -> None:
    with pytest.raises(ValueError, match="dropout: p must lie in"):
        hg.dropout(executor.ones((3,)), p=p)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("draw", [hg.random_gamma, hg.random_poisson])
def test_no_numbers_are_drawn_where_there_is_no_distribution(
    executor: hg.Executor, draw: Callable[..., Any], dtype: str
) -> None:
    needs(executor, dtype)
    key = executor.tensor(np.array([1, 2], np.uint64))
    found = draw(executor.tensor([-5.0, -0.5, np.nan, 0.0, -0.0], dtype=dtype), key).to_numpy()
    np.testing.assert_array_equal(found, [np.nan, np.nan, np.nan, 0, 0])


def test_classes_that_do_not_exist_have_no_loss(executor: hg.Executor) -> None:
    logits = executor.ones((4, 3))
    target = executor.tensor(np.array([0, -1, 3, 2**32], np.int64))
    losses = hg.cross_entropy_loss(logits, target, reduction="none").to_numpy()
    np.testing.assert_allclose(losses, [np.log(3.0), np.nan, np.nan, np.nan], rtol=1e-6)
    assert np.isnan(hg.cross_entropy_loss(logits, target).item())
