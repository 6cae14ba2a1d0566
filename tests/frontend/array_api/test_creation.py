"""What tensors are made of: sizes, dtypes by every name, and numbers that a dtype must be able to hold."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation import dtypes


@pytest.mark.parametrize("name", ["empty", "zeros", "ones"])
def test_a_size_is_a_shape_of_one_axis(name: str, executor: hg.Executor) -> None:
    create = getattr(executor, name)
    assert create(4).shape == create([4]).shape == create(np.int64(4)).shape == (4,)
    np.testing.assert_array_equal(executor.full(3, 7, "i8").to_numpy(), np.full(3, 7, np.int8))
    traced = hg.jit(lambda x: x + getattr(x.executor, "ones")(4))  # noqa: B009
    np.testing.assert_array_equal(traced(executor.zeros(4)).to_numpy(), np.ones(4))


@pytest.mark.parametrize("spec", [float, "float", np.float64, int, "int", bool, "bool", "f32", np.float16])
def test_dtypes_are_named_as_in_numpy(spec: Any) -> None:
    assert dtypes.dtype(spec).numpy == (np.dtype(np.float32) if spec == "f32" else np.dtype(spec))


@pytest.mark.parametrize(
    ("elements", "dtype"),
    [
        ([300], "u8"), ([-1], "u64"), (300, "i8"), ([2**63], "i64"), ([[0, 1], [2, 65536]], "u16"), ([1.7], "i32"),
        ([300.0], "u8"), ([float("nan")], "i32"), ([float("inf")], "i64"),
    ],
)  # fmt: skip
def test_numbers_that_do_not_fit_are_refused(elements: Any, dtype: str, executor: hg.Executor) -> None:
    with pytest.raises(hg.UnsupportedDType, match=f"{dtype} cannot hold"):
        executor.tensor(elements, dtype)
    x = executor.zeros((2, 2), dtype)
    with pytest.raises(hg.UnsupportedDType, match=f"{dtype} cannot hold"):
        x[:] = elements
    if np.ndim(elements) < 2:
        with pytest.raises(hg.UnsupportedDType, match=f"{dtype} cannot hold"):
            executor.full((), np.ravel(elements)[0].item(), dtype)


@pytest.mark.parametrize(
    ("elements", "dtype"), [([2.0], "i32"), ([1, 2**63], "u64"), ([True, 2], "f16"), ([], "i8")]
)
def test_numbers_that_fit_stay_exact(elements: list[Any], dtype: str, executor: hg.Executor) -> None:
    assert executor.tensor(elements, dtype).tolist() == elements


def test_arrays_are_converted_as_tensors_are(executor: hg.Executor) -> None:
    for array in (np.array([300.7, -1, np.nan, np.inf, 1.7]), np.array([300, -1, 2**40])):
        for dtype in ("u8", "i32", "f32", "bool", "bf16"):
            converted = executor.tensor(array, dtype).to_numpy().astype(np.float64)
            wanted = executor.tensor(array).astype(dtype).to_numpy().astype(np.float64)
            np.testing.assert_array_equal(converted, wanted)


def test_numbers_that_a_bool_does_not_hold_are_refused_everywhere(executor: hg.Executor) -> None:
    for make in (lambda: executor.tensor([2, 0.5], "bool"), lambda: executor.full((2,), 0.5, "bool")):
        with pytest.raises(hg.UnsupportedDType, match="bool cannot hold"):
            make()
    assert executor.tensor([1, 0.0, True], "bool").tolist() == [True, False, True]


def test_integers_of_any_size_become_floats(executor: hg.Executor) -> None:
    assert executor.tensor([2**64], "f32").item() == executor.full((), 2**64, "f32").item() == 2.0**64
    with pytest.raises(
        hg.UnsupportedDType, match=r"no integer dtype holds all of \[1, 18446744073709551616\]"
    ):
        executor.tensor([1, 2**64])
    with pytest.raises(hg.UnsupportedDType, match=r"f32 cannot hold .*too large"):
        executor.tensor([10**400], "f32")
    with pytest.raises(hg.UnsupportedDType, match="u8 cannot hold 300"):
        executor.tensor([np.int64(300)], "u8")


def test_floats_round_once_and_overflow_in_silence(executor: hg.Executor) -> None:
    number = 1 + 2**-8 + 2**-40  # in f32 a tie, which would round down
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for made in (
            executor.tensor([number], "bf16"),
            executor.full((1,), number, "bf16"),
            executor.tensor(np.array([number]), "bf16"),
        ):
            assert made.astype("f64").item() == 1 + 2**-7
        assert executor.full((1,), 1e6, "f16").tolist() == [np.inf]


def test_an_error_names_who_was_called(executor: hg.Executor) -> None:
    for name in ("zeros", "ones", "empty"):
        with pytest.raises(hg.ShapeError, match=f"^{name}: sizes must not be negative"):
            getattr(executor, name)(-1)


def test_what_has_a_dtype_keeps_it_in_a_list(executor: hg.Executor) -> None:
    single, double = np.float32(1), np.float64(1)
    for listed in ([1.0, 2.0], [[1.0], [single]], [single, 1.0], (np.int64(1), 0.5), 3.0):
        assert executor.tensor(listed).dtype is hg.float32
    if hg.float64 in executor.limits.dtypes:
        mine = executor.tensor(double)
        for listed in ([double, 2.0], [[0.5], (double,)], [np.array([1.0]), np.array([2.0])], [mine, mine]):
            assert executor.tensor(listed).dtype is hg.float64
        assert executor.tensor([1j, double]).dtype is hg.complex128
    assert executor.tensor([1j, 2.0]).dtype is hg.complex64
