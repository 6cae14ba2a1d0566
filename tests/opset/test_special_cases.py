"""Zeros with their signs, infinities and NaN: what the array API standard asks of every element-wise function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.dtypes import COMPLEX, FLOATS, DType
from hologram.opset import OPERATIONS
from hologram.opset.forms.map import Elementwise
from hologram.opset.forms.operation import Operation
from tests.needs import needs

NAN, INF = math.nan, math.inf
AWKWARD = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5, -3.0, 0.5, -0.25)
# Of 0.0 and -0.0: no standard says which; SciPy's erfinv loses the sign of -0.0, and sinc is 0 at integers.
EITHER_ZERO = ("minimum", "maximum", "erfinv", "sinc")
FUNCTIONS = [  # there are no polynomials of infinite degree
    o
    for o in OPERATIONS.values()
    if isinstance(o, Elementwise) and len(o.operands) <= 2 and "polynomial" not in o.name
]

# The standard's own words (2024.12) as numbers: operands, result. Where it lets libraries follow Python, as NumPy does:
# an infinity divided with // gives NaN.
STANDARD: dict[str, tuple[tuple[float, ...], ...]] = {
    "floor_divide": (
        (INF, INF, NAN), (INF, -INF, NAN), (0.0, 0.0, NAN), (-0.0, 0.0, NAN), (NAN, 1.0, NAN), (1.0, NAN, NAN),
        (0.0, 2.0, 0.0), (-0.0, 2.0, -0.0), (0.0, -2.0, -0.0), (-0.0, -2.0, 0.0), (1.0, 0.0, INF), (1.0, -0.0, -INF),
        (-1.0, 0.0, -INF), (-1.0, -0.0, INF), (INF, 1.0, NAN), (INF, -1.0, NAN), (-INF, 1.0, NAN), (1.0, INF, 0.0),
        (1.0, -INF, -1.0), (-1.0, INF, -1.0), (-1.0, -INF, 0.0), (0.0, INF, 0.0), (-0.0, INF, -0.0), (7.0, -2.0, -4.0),
    ),
    "remainder": (
        (INF, 1.0, NAN), (-INF, -1.0, NAN), (1.0, 0.0, NAN), (0.0, 0.0, NAN), (0.0, 2.0, 0.0), (-0.0, 2.0, 0.0),
        (0.0, -2.0, -0.0), (-0.0, -2.0, -0.0), (1.0, INF, 1.0), (1.0, -INF, -INF), (-1.0, INF, INF), (-1.0, -INF, -1.0),
        (4.0, 2.0, 0.0), (-4.0, 2.0, 0.0), (4.0, -2.0, -0.0),
    ),
    "pow": (
        (NAN, 0.0, 1.0), (NAN, -0.0, 1.0), (1.0, NAN, 1.0), (1.0, INF, 1.0), (-1.0, INF, 1.0), (2.0, INF, INF),
        (2.0, -INF, 0.0), (0.5, INF, 0.0), (0.5, -INF, INF), (INF, 2.0, INF), (INF, -2.0, 0.0), (-INF, 3.0, -INF),
        (-INF, 2.0, INF), (-INF, -3.0, -0.0), (0.0, 2.0, 0.0), (0.0, -2.0, INF), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0),
        (-0.0, -3.0, -INF), (-0.0, -2.0, INF), (-2.0, 0.5, NAN),
    ),
    "atan2": (
        (NAN, 1.0, NAN), (1.0, 0.0, math.pi / 2), (1.0, -0.0, math.pi / 2), (0.0, 1.0, 0.0), (0.0, 0.0, 0.0),
        (0.0, -0.0, math.pi), (0.0, -1.0, math.pi), (-0.0, 1.0, -0.0), (-0.0, 0.0, -0.0), (-0.0, -0.0, -math.pi),
        (-0.0, -1.0, -math.pi), (-1.0, 0.0, -math.pi / 2), (1.0, INF, 0.0), (1.0, -INF, math.pi), (-1.0, INF, -0.0),
        (INF, 1.0, math.pi / 2), (INF, INF, math.pi / 4), (INF, -INF, 3 * math.pi / 4), (-INF, -INF, -3 * math.pi / 4),
    ),
    "hypot": ((INF, NAN, INF), (NAN, -INF, INF), (NAN, 1.0, NAN), (3.0, -4.0, 5.0), (-0.0, -0.0, 0.0)),
    "logaddexp": ((NAN, 1.0, NAN), (INF, INF, INF), (INF, -INF, INF), (-INF, -INF, -INF), (INF, NAN, NAN)),
    "copysign": ((1.0, -0.0, -1.0), (-0.0, 1.0, 0.0), (INF, -NAN, -INF)),
    "fmod": ((1.0, INF, 1.0), (-1.0, INF, -1.0), (-4.0, 2.0, -0.0), (INF, 1.0, NAN), (1.0, 0.0, NAN)),
    "sign": ((0.0, 0.0), (-0.0, 0.0), (NAN, NAN), (-INF, -1.0), (INF, 1.0)),
    "round": ((-0.0, -0.0), (0.5, 0.0), (-0.5, -0.0), (1.5, 2.0), (2.5, 2.0), (INF, INF), (NAN, NAN)),
    "ceil": ((-0.0, -0.0), (-0.5, -0.0), (INF, INF), (NAN, NAN)),
    "floor": ((-0.0, -0.0), (0.5, 0.0), (-INF, -INF), (NAN, NAN)),
    "trunc": ((-0.0, -0.0), (-0.5, -0.0), (0.5, 0.0), (-INF, -INF), (NAN, NAN)),
    "sqrt": ((-0.0, -0.0), (-1.0, NAN), (INF, INF)),
    "expm1": ((-0.0, -0.0), (-INF, -1.0), (INF, INF)),
    "log1p": ((-0.0, -0.0), (-1.0, -INF), (-2.0, NAN), (INF, INF)),
}  # fmt: skip

# Complex functions of which NumPy has what C's Annex G says (others turn or scale these), and where it says less.
COMPLEX_FUNCTIONS = ("acos", "acosh", "asinh", "atanh", "cosh", "exp", "log", "log1p", "sinh", "sqrt", "tanh")
STANDARD_COMPLEX = {
    "expm1": (
        (INF, INF, INF, NAN), (INF, NAN, INF, NAN), (INF, 0.0, INF, 0.0), (-INF, INF, -1.0, 0.0),
        (-INF, NAN, -1.0, 0.0), (NAN, 0.0, NAN, 0.0), (NAN, 1.0, NAN, NAN), (1.0, INF, NAN, NAN), (1.0, NAN, NAN, NAN),
    ),
    "sign": ((-0.0, -0.0, 0.0, 0.0), (NAN, 1.0, NAN, NAN), (1.0, NAN, NAN, NAN), (3.0, 4.0, 0.6, 0.8)),
}  # fmt: skip


def compare(got: np.ndarray, want: np.ndarray, signs: bool = True) -> None:
    np.testing.assert_allclose(
        got.astype(np.float64), want, rtol=2e-2 if got.itemsize == 2 else 1e-5, atol=1e-7
    )
    known = signs & ~np.isnan(want)  # NaN has no sign
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(want)[known])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", STANDARD)
def test_the_standards_special_cases(name: str, dtype: DType, executor: hg.Executor) -> None:
    needs(executor, dtype)
    *operands, want = np.array(STANDARD[name]).T
    got = OPERATIONS[name](*(executor.tensor(o.astype(dtype.numpy)) for o in operands))
    compare(got.to_numpy(), want)


@pytest.mark.parametrize("operation", FUNCTIONS, ids=lambda o: o.name)
def test_awkward_numbers_as_in_numpy(operation: Operation, executor: hg.Executor) -> None:
    for dtype in set(FLOATS) & set(operation.dtypes) & set(executor.limits.dtypes):
        x = np.array(AWKWARD, dtype.numpy)
        operands = (x,) if len(operation.operands) == 1 else (x[:, None], x[None, :])
        got = operation(*map(executor.tensor, operands)).to_numpy()
        with np.errstate(all="ignore"):
            wide = np.float64 if operation.widened else dtype.numpy
            want = np.asarray(operation.reference(*(o.astype(wide) for o in operands)))
        if got.dtype == bool:
            np.testing.assert_array_equal(got, want)
        elif got.dtype.kind == "c":
            compare(np.real(got), np.real(want))
            compare(np.imag(got), np.imag(want))
        else:
            signs = operation.name not in EITHER_ZERO and executor.limits.keeps("zeros")
            compare(got, want, signs)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_awkward_complex_numbers_as_in_numpy(dtype: DType, executor: hg.Executor) -> None:
    needs(executor, dtype)
    parts = np.array((0.0, -0.0, 0.5, -3.0, INF, -INF, NAN))
    z: Any = np.empty((7, 7), dtype.numpy)
    z.real, z.imag = parts[:, None], parts[None, :]
    ended = (np.isinf(z.real) & np.isinf(z.imag)) | np.isnan(z.real) | np.isnan(z.imag)
    for name in COMPLEX_FUNCTIONS:
        got = OPERATIONS[name](executor.tensor(z)).to_numpy()
        with np.errstate(all="ignore"):
            want = getattr(np, name)(z)
        signed = ~ended & (want == want)  # beside NaN no sign is known, nor are those of no angle
        for part in (np.real, np.imag):
            of, to = part(got), part(want)
            np.testing.assert_allclose(np.abs(of), np.abs(to), rtol=1e-5, atol=1e-7, err_msg=name)
            if executor.limits.keeps("zeros"):
                np.testing.assert_array_equal(np.signbit(of)[signed], np.signbit(to)[signed], err_msg=name)


@pytest.mark.parametrize("name", STANDARD_COMPLEX)
def test_the_standards_special_complex_cases(name: str, executor: hg.Executor) -> None:
    x, y, *want = np.array(STANDARD_COMPLEX[name]).T
    z: Any = np.empty(x.shape, np.complex64)
    z.real, z.imag = x, y
    got = OPERATIONS[name](executor.tensor(z)).to_numpy()
    for part, wanted in zip((got.real, got.imag), want, strict=True):
        compare(part, wanted, executor.limits.keeps("zeros"))


def test_the_second_power_has_the_dtype_of_a_power(executor: hg.Executor) -> None:
    whole = executor.tensor(np.array([-3, 4], np.int32))
    assert (whole**2).tolist() == [9, 16]
    assert (whole**2).dtype is whole.dtype
    assert (whole**2.0).dtype is hg.f32
    assert (executor.tensor(np.array([True, False])) ** 2).tolist() == [1, 0]
    with pytest.raises(TypeError, match="needs the argument 'y'"):
        hg.pow(whole)  # pyright: ignore[reportCallIssue]


def test_quotient_by_a_constant_zero_within_a_program(executor: hg.Executor) -> None:
    x = np.array([0.5, -2.0, 0.0, -1.0, INF, NAN], np.float32)
    found = hg.jit(lambda x: ((x + 1) / 0.0, (x + 1) / -0.0))(executor.tensor(x))
    with np.errstate(all="ignore"):
        wanted = (x + 1) / np.float32(0.0), (x + 1) / np.float32(-0.0)
    for one, want in zip(found, wanted, strict=True):
        assert np.array_equal(one.to_numpy(), want, equal_nan=True)
