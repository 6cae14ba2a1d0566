"""Ranges, windows, rounding, angles, parts of numbers, equations and Fourier transforms with NumPy's arguments."""

import numpy as np
import pytest

import hologram as hg
from tests.frontend.numpy_names.alike import CUBE, FLAT, TABLE, WHOLE, alike, moved, same


@pytest.mark.parametrize("ends", [(0, 10, 7), (-7, -1, 10), (-3.5, 2, 9), (0, 2, 99)])
@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "bool"])
def test_linspace(executor, ends, dtype):
    for endpoint in (True, False):
        alike(executor, "linspace", *ends, endpoint=endpoint, dtype=dtype)


def test_ranges(executor):
    alike(executor, "linspace", TABLE[0], TABLE[1], 5, axis=-1)
    alike(executor, "linspace", TABLE[0], TABLE[1], 5, False, True)
    alike(executor, "logspace", 0, 3, 4, dtype="int32")
    alike(executor, "logspace", TABLE[0], TABLE[1], 3, base=2.0, rtol=2e-5)
    for ends in ((-1, -1000), (1, 1j), (2.0, 0.5)):
        alike(executor, "geomspace", *ends, 5, rtol=1e-5)
    alike(executor, "geomspace", np.abs(TABLE[0]), np.abs(TABLE[1]), 4, rtol=2e-5)
    assert hg.linspace(executor, 0.0, 1.0, 3).tolist() == [0.0, 0.5, 1.0]


def test_fromfunction(executor):
    alike(executor, "fromfunction", lambda i, j: i * 3 + j, (4, 5), dtype=np.float32)
    with hg.use_executor(executor):
        assert hg.fromfunction(lambda i, by: i * by, (3,), dtype="i32", by=2).tolist() == [0, 2, 4]


@pytest.mark.parametrize("name", ["hanning", "hamming", "blackman", "bartlett", "kaiser"])
def test_windows(executor, name):
    more, least = ((8.6,), 1.5e-6) if name == "kaiser" else ((), 3e-7)
    for m in (-1, 0, 1, 2, 3, 12, 1001):
        with hg.use_executor(executor):
            found = getattr(hg, name)(m, *more)
        assert found.executor is executor
        np.testing.assert_allclose(found.to_numpy(), getattr(np, name)(m, *more), rtol=0, atol=least)
    with pytest.raises(hg.UnsupportedDType, match=f"{name}: a float dtype is needed, got i32"):
        getattr(hg, name)(4, *more, dtype="i32", device=executor)


@pytest.mark.parametrize("decimals", [-1, -2, -3, 0, 2])
def test_round_of_integers(executor, decimals):
    """Halves go to even tens, hundreds; a method, and NumPy's function."""
    x = np.array([15, 25, 35, -15, -25, 149, 150, 250, -450, 1500, 2500, 99999], np.int32)
    alike(executor, "round", x, decimals)
    t = executor.tensor(x)
    np.testing.assert_array_equal(t.round(decimals).to_numpy(), np.round(x, decimals))
    np.testing.assert_array_equal(np.round(t, decimals).to_numpy(), np.round(x, decimals))
    assert hg.round(executor.tensor(np.array([120, -128], np.int8)), -3).tolist() == [0, 0]


def test_angles_in_degrees(executor):
    z = np.array([1, -1, 1j, -1j, 1 - 1j, 0], np.complex64)
    alike(executor, "angle", z, deg=True)
    alike(executor, "angle", TABLE, True)
    slope = hg.grad(lambda x: hg.sum(hg.angle(hg.complex(x, hg.ones_like(x)), deg=True)))
    got = slope(executor.tensor(np.array([0.5, -2.0], np.float32))).to_numpy()
    np.testing.assert_allclose(got, -180 / np.pi / (1 + np.array([0.25, 4.0])), rtol=1e-5)


def test_frexp(executor):
    hard = np.array([0.0, -0.0, 1, -3.7, 2.0**-120, 3e38, np.inf, -np.inf, np.nan], np.float32)
    parts, powers = hg.frexp(executor.tensor(hard))
    want, exponents = np.frexp(hard)
    np.testing.assert_array_equal(parts.to_numpy(), want)
    np.testing.assert_array_equal(powers.to_numpy()[:6], exponents[:6])
    assert powers.dtype is hg.i32
    assert hg.frexp(executor.tensor(WHOLE))[0].dtype is hg.f32
    with pytest.raises(hg.UnsupportedDType, match="frexp: real numbers are needed, got c64"):
        hg.frexp(executor.tensor(np.ones(2, np.complex64)))


def test_real_if_close(executor):
    for imaginary, tol in ((1e-7, 100), (1e-2, 100), (1e-2, 0.1), (0.0, 100), (np.nan, 100)):
        alike(executor, "real_if_close", np.array([1, 2 + 1j * imaginary], np.complex64), tol)
    alike(executor, "real_if_close", TABLE)


def test_equations_of_tensors(executor):
    a = (np.eye(24) + 0.1 * np.arange(576).reshape(24, 24) % 1).reshape(2, 3, 4, 6, 4).astype(np.float32)
    b = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 24
    same(hg.linalg.tensorsolve(*moved((a, b), executor)), np.linalg.tensorsolve(a, b), 1e-4)
    square = np.moveaxis(a, 3, 0)
    axes = (0, 4)
    same(
        hg.linalg.tensorsolve(*moved((square, b), executor), axes=axes),
        np.linalg.tensorsolve(square, b, axes=axes), 1e-4,
    )  # fmt: skip
    same(hg.linalg.tensorinv(moved(a, executor), 3), np.linalg.tensorinv(a, 3), 1e-4)
    same(np.linalg.tensorinv(moved(b.reshape(2, 12)[:, :2] + np.eye(2, dtype=np.float32), executor), 1),
         np.linalg.tensorinv(b.reshape(2, 12)[:, :2] + np.eye(2), 1), 1e-4)  # fmt: skip
    with pytest.raises(hg.LinAlgError, match="as many unknowns as equations"):
        hg.linalg.tensorsolve(*moved((TABLE, FLAT[:4]), executor))
    with pytest.raises(hg.LinAlgError, match=r"the first 1 axes .* got shape \(4, 9\)"):
        hg.linalg.tensorinv(moved(TABLE, executor), 1)
    with pytest.raises(ValueError, match="ind must be at least 1, got 0"):
        hg.linalg.tensorinv(moved(TABLE, executor), 0)


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
def test_transforms_by_place(executor, norm):
    """n, axis and norm by place, two axes, and NumPy's functions of tensors."""
    x, whole = moved(CUBE, executor), CUBE.astype(np.complex64)
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        y = whole if name in ("irfft", "hfft") else CUBE
        want = getattr(np.fft, name)(y, 6, 1, norm)
        same(getattr(hg.fft, name)(moved(y, executor), 6, 1, norm), want, 1e-5)
        same(getattr(np.fft, name)(moved(y, executor), 6, axis=1, norm=norm), want, 1e-5)
    for name in ("fft2", "ifft2", "rfft2", "irfft2"):
        y = whole if name == "irfft2" else CUBE
        same(getattr(hg.fft, name)(moved(y, executor), norm=norm), getattr(np.fft, name)(y, norm=norm), 1e-5)
        want = getattr(np.fft, name)(y, (4, 6), (0, 2), norm)
        same(getattr(hg.fft, name)(moved(y, executor), (4, 6), (0, 2), norm), want, 1e-5)
        same(getattr(np.fft, name)(moved(y, executor)), getattr(np.fft, name)(y), 1e-5)
    assert x.shape == CUBE.shape
    with pytest.raises(ValueError, match="fft: norm must be one of"):
        hg.fft.fft2(x, norm="none")
