"""hg.fft against NumPy's transforms in double precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.opset.fourier.chirp import padded
from hologram.opset.fourier.passes import radices, roots
from hologram.opset.fourier.workgroups import Rows
from tests.needs import needs

pytestmark = pytest.mark.sampled(5)

LENGTHS = [
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    11,
    13,
    16,
    17,
    19,
    30,
    32,
    64,
    77,
    97,
    128,
    210,
    243,
    256,
    509,
    1000,
    1024,
    2310,
    8192,
]
NAMES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
REAL = ("rfft", "ihfft")


def numbers(seed: int, shape: tuple[int, ...], dtype: DType) -> Any:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return (z if dtype.is_complex else z.real).astype(dtype.numpy)


def close(found: Any, want: Any, dtype: DType = dtypes.f32, least: float = 1e-30) -> None:
    """Within so many epsilons of the largest element, or of what is at `least` added up to it.

    Errors of a transform grow with the logarithm of its length.
    """
    got = found.to_numpy()
    assert got.shape == want.shape
    bound = 16 * np.finfo(dtype.part.numpy).eps * max(least, np.abs(want).max(initial=0.0))
    assert np.abs(got - want).max(initial=0.0) <= bound


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", LENGTHS)
def test_any_length(executor: hg.Executor, name: str, n: int) -> None:
    x = numbers(n, (2, n), dtypes.f32 if name in REAL else dtypes.c64)
    wide = x.astype(np.float64 if name in REAL else np.complex128)
    length = {"n": n} if name in ("irfft", "hfft") else {}
    close(getattr(hg.fft, name)(executor.tensor(x), **length), getattr(np.fft, name)(wide, **length))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [7, 12, 60, 101])
def test_double_precision(executor: hg.Executor, name: str, n: int) -> None:
    if dtypes.f64 not in executor.limits.dtypes:
        with pytest.raises(hg.UnsupportedDType):
            executor.zeros((3,), "c128")
        return
    x = numbers(n, (3, n), dtypes.f64 if name in REAL else dtypes.c128)
    close(getattr(hg.fft, name)(executor.tensor(x)), getattr(np.fft, name)(x), dtypes.f64)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("n", "axis"), [(None, 0), (5, 1), (9, -1), (8, 1), (1, 0)])
def test_sizes_axes_and_norms(executor: hg.Executor, name: str, n: int | None, axis: int, norm: str) -> None:
    x = numbers(3, (4, 6, 5), dtypes.f32 if name in REAL else dtypes.c64)
    how: dict[str, Any] = {"n": n, "axis": axis, "norm": norm}
    close(getattr(hg.fft, name)(executor.tensor(x), **how), getattr(np.fft, name)(x, **how))


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"axes": (0, 2)},
        {"axes": (2, 0)},
        {"s": (3, 8), "axes": (1, 2)},
        {"s": (4, 7, 2)},
        {"s": (3, -1, 5)},
        {"s": (3, -1), "axes": (2, 1)},
        {"s": (2, 6), "axes": (1, 1)},
        {"s": (3, -1), "axes": (1, 1)},
    ],
    ids=str,
)
def test_several_axes(executor: hg.Executor, name: str, how: dict[str, Any]) -> None:
    x = numbers(4, (4, 6, 5), dtypes.f32 if name == "rfftn" else dtypes.c64)
    axes = how.get("axes", (0, 1, 2))
    close(getattr(hg.fft, name)(executor.tensor(x), **how), getattr(np.fft, name)(x, **{**how, "axes": axes}))


def test_views_and_what_has_no_elements(executor: hg.Executor) -> None:
    z = numbers(5, (6, 16), dtypes.c64)
    x = executor.tensor(z)
    close(hg.fft.fft(x[::-2, 1::3]), np.fft.fft(z[::-2, 1::3]))
    close(hg.fft.rfft(x.real[:, ::2]), np.fft.rfft(z.real[:, ::2]))
    close(hg.fft.fft(x.T), np.fft.fft(z.T))
    assert hg.fft.fft(executor.zeros((0, 4), "c64")).shape == (0, 4)
    assert hg.fft.fft(executor.tensor([1, 2, 3])).dtype is hg.c64


def test_frequencies_and_shifts(executor: hg.Executor) -> None:
    for n in (1, 4, 5, 10):
        close(hg.fft.fftfreq(n, d=0.5, device=executor), np.fft.fftfreq(n, 0.5))
        close(hg.fft.rfftfreq(n, device=executor), np.fft.rfftfreq(n))
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    for axes in (None, 0, (0, 1), -1):
        for name in ("fftshift", "ifftshift"):
            np.testing.assert_array_equal(
                getattr(hg.fft, name)(executor.tensor(x), axes=axes).to_numpy(),
                getattr(np.fft, name)(x, axes),
            )


def test_in_a_graph_and_back(executor: hg.Executor) -> None:
    torch = pytest.importorskip("torch")
    x = numbers(6, (4, 12), dtypes.f32)

    def loss(t: Any, module: Any, total: Any) -> Any:
        spectrum = module.rfft(t)
        return total(abs(spectrum) ** 2) + total(module.irfft(module.fft(t), n=11) ** 3)

    theirs = torch.tensor(x, requires_grad=True)
    loss(theirs, torch.fft, torch.sum).backward()
    ours = hg.grad(lambda t: loss(t, hg.fft, hg.sum))
    for gradient in (ours, hg.jit(ours)):
        np.testing.assert_allclose(
            gradient(executor.tensor(x)).to_numpy(), theirs.grad.numpy(), rtol=1e-4, atol=1e-3
        )
    close(hg.jit(lambda t: hg.fft.ifft(hg.fft.fft(t) * 2j))(executor.tensor(x)), x * 2j)
    close(hg.jit(hg.fft.rfft)(executor.tensor(x)), np.fft.rfft(x))


def test_radices_and_roots() -> None:
    for n in range(1, 3000):
        parts = radices(n)
        if parts is not None:
            assert np.prod(parts, initial=1) == n
    assert radices(1024) == (16, 8, 8)
    assert radices(17) is None
    for n in (1, 2, 3, 8, 12, 1000):
        assert np.abs(roots(n, dtypes.c128) - np.exp(-2j * np.pi * np.arange(n) / n)).max() < 1e-15 * 8


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: hg.fft.fft(x, n=0), hg.ShapeError, "fft: n must be at least 1, got 0"),
        (lambda x: hg.fft.irfft(x, n=-3), hg.ShapeError, "irfft: n must be at least 1, got -3"),
        (lambda x: hg.fft.irfft(x[:1]), hg.ShapeError, "irfft: n must be at least 1, got 0"),
        (lambda x: hg.fft.fft(x, norm="none"), ValueError, "fft: norm must be one of backward, ortho, forward"),
        (lambda x: hg.fft.rfft(x), hg.UnsupportedDType, "rfft: real numbers are needed, got c64"),
        (lambda x: hg.fft.fft(x, axis=2), Exception, "axis"),
        (lambda x: hg.fft.fftn(x, s=(2, 3), axes=(0,)), hg.ShapeError, "a size for each"),
        (lambda x: hg.fft.fftn(x, s=(2, 3)), hg.ShapeError, "a size for each of some axes .* for shape"),
        (lambda x: hg.fft.fftn(x, s=2.5), TypeError, "fftn: a size"),
        (lambda x: hg.fft.fftfreq(4, d=0), ValueError, "fftfreq: the distance of samples must not be 0"),
        (lambda x: hg.fft.fftfreq(0), hg.ShapeError, "fftfreq: n must be at least 1"),
        (lambda x: hg.fft.fft(x, n=2.5), TypeError, "fft: n"),  # pyright: ignore[reportArgumentType]
    ],
)  # fmt: skip
def test_bad_input(executor: hg.Executor, call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(executor.tensor(numbers(7, (4,), dtypes.c64)))


LANES = [(1000,), (3, 1331), (20, 27), (1000, 16), (3, 20, 9), (5, 4096), (2, 16384), (4, 2, 59), (70, 5)]


@pytest.mark.parametrize("shape", LANES, ids=str)
@pytest.mark.parametrize("dtype", [dtypes.c64, dtypes.c128], ids=str)
def test_lanes_of_all_kinds(executor: hg.Executor, shape: tuple[int, ...], dtype: DType) -> None:
    """Rows, columns, and what lies across memory, of fewer and more transforms than a vector has lanes."""
    if dtype not in executor.limits.dtypes:
        dtype = dtypes.c64
    z = numbers(8, shape, dtype)
    x = executor.tensor(z)
    for axis in range(len(shape)):
        close(hg.fft.fft(x, axis=axis), np.fft.fft(z.astype(np.complex128), axis=axis), dtype)
        close(hg.fft.rfft(x.real, axis=axis), np.fft.rfft(z.real.astype(float), axis=axis), dtype)
    turned = np.swapaxes(z, 0, -1).astype(np.complex128)
    close(hg.fft.ifft(x.swapaxes(0, -1), axis=0), np.fft.ifft(turned, axis=0), dtype)
    close(hg.fft.fft(x[..., ::-1]), np.fft.fft(z[..., ::-1].astype(np.complex128)), dtype)


def test_a_batch_of_examples(executor: hg.Executor) -> None:
    for n in (12, 17):
        z = numbers(9, (3, n, 2), dtypes.c64)
        close(hg.vmap(lambda x: hg.fft.fft(x, axis=0))(executor.tensor(z)), np.fft.fft(z, axis=1))
        close(hg.vmap(lambda x: hg.fft.rfft(x, axis=0))(executor.tensor(z.real)), np.fft.rfft(z.real, axis=1))


def test_an_infinity_stays_in_its_row(executor: hg.Executor) -> None:
    z = numbers(10, (40, 48), dtypes.c64)
    z[3, 5] = np.inf
    z[17, 0] = np.nan
    found = np.isfinite(hg.fft.fft(executor.tensor(z)).to_numpy()).all(axis=1)
    assert np.flatnonzero(~found).tolist() == [3, 17]
    found = np.isfinite(hg.fft.rfft(executor.tensor(z.real)).to_numpy()).all(axis=1)
    assert np.flatnonzero(~found).tolist() == [3, 17]


def test_lengths_of_convolutions_are_smooth_and_long_enough() -> None:
    for n in (17, 19, 101, 1009, 65537):
        assert 2 * n - 1 <= padded(n) < 3 * n
        assert radices(padded(n)) is not None


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.c64], ids=str)
@pytest.mark.parametrize(("n", "m"), [(5, 3), (40, 17), (17, 40), (1, 1), (64, 64)])
def test_convolution_by_transforms(executor: hg.Executor, n: int, m: int, dtype: DType, mode: Any) -> None:
    a, b = (numbers(seed, (size,), dtype) for seed, size in ((11, n), (12, m)))
    x, y = executor.tensor(a), executor.tensor(b)
    least = float(np.linalg.norm(a) * np.linalg.norm(b))  # one sum of products may cancel
    close(hg.convolve(x, y, mode, method="fft"), np.convolve(a, b, mode), least=least)
    close(hg.correlate(x, y, mode, method="fft"), np.correlate(a, b, mode), least=least)


def test_which_convolutions_are_by_transforms(executor: hg.Executor) -> None:
    """An infinity tells: by sums it stays where its products are."""
    x = np.ones(4096, np.float32)
    x[0] = np.inf
    t = executor.tensor(x)
    assert np.isfinite(hg.convolve(t, t[1:256], method="auto").to_numpy()).sum() == 4096 - 1
    assert not np.isfinite(hg.convolve(t, t[1:257], method="auto").to_numpy()).any()
    assert np.isfinite(hg.convolve(t, t[1:257]).to_numpy()).any()
    with pytest.raises(hg.UnsupportedDType, match=r"convolve: by transforms f32, f64, c64, c128 .* got i64"):
        hg.convolve(executor.tensor([1, 2]), executor.tensor([1, 2]), method="fft")
    with pytest.raises(ValueError, match="correlate: method must be one of direct, fft, auto, got 'sums'"):
        hg.correlate(t, t, method="sums")


def test_by_numpy_where_there_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_CPU_WITHOUT", "llvm")
    z, x = (numbers(13, (3, 12), dtype) for dtype in (dtypes.c64, dtypes.f32))
    with hg.Executor("cpu") as executor:
        for axis in (0, 1):
            close(hg.fft.ifft(executor.tensor(z), axis=axis), np.fft.ifft(z, axis=axis))
        close(hg.fft.rfft(executor.tensor(x)), np.fft.rfft(x))
        close(hg.fft.irfft(executor.tensor(z)), np.fft.irfft(z))


@pytest.mark.parametrize(
    "shape", [(130, 64), (67, 30), (5, 243), (3, 2048), (2, 4096), (1, 1000), (2, 3, 128)], ids=str
)
@pytest.mark.parametrize("dtype", [dtypes.c64, dtypes.c128], ids=str)
def test_rows_in_a_workgroup(executor: hg.Executor, shape: tuple[int, ...], dtype: DType) -> None:
    """More rows, and fewer, than a workgroup has; views; and one launch where a row fits."""
    needs(executor, dtype)
    z = numbers(5, (*shape[:-1], 2 * shape[-1]), dtype)
    x = executor.tensor(z)[..., ::2]
    wide = z[..., ::2].astype(np.complex128)
    close(hg.fft.fft(x), np.fft.fft(wide), dtype)
    close(hg.fft.ifft(x, norm="forward"), np.fft.ifft(wide, norm="forward"), dtype)
    how = Rows.of(shape[-1], radices(shape[-1]) or (), dtype, executor.limits)
    if how is not None and not executor.limits.own_transforms:
        whole = x.contiguous()
        assert hg.jit(hg.fft.fft).dispatches(whole) == 1


def test_rows_that_do_not_fit() -> None:
    """Of workgroups with little memory, or few threads; and where a program would be long."""
    limits = hg.Executor("cpu").limits
    small = replace(limits, shared_bytes=16384, max_workgroup_threads=256)
    assert Rows.of(2048, (16, 16, 8), dtypes.c64, small) == Rows(128, 1)
    assert Rows.of(4096, (8, 8, 8, 8), dtypes.c64, small) is None
    assert Rows.of(2048, (16, 16, 8), dtypes.c128, small) is None
    assert Rows.of(1024, (16, 8, 8), dtypes.c64, replace(small, max_workgroup_threads=32)) is None
    assert Rows.of(16, (16,), dtypes.c64, small) is None
    assert Rows.of(2310, (11, 7, 5, 3, 2), dtypes.c64, replace(small, shared_bytes=32768)) is None


@pytest.mark.parametrize("shape", [(3, 13, 1), (2, 4, 1), (2, 5, 1, 1)])
@pytest.mark.parametrize("name", ["rfft", "irfft", "hfft", "ihfft"])
def test_real_transforms_where_the_axis_behind_has_one_element(
    executor: Any, name: str, shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).astype(np.float32)
    if name in ("irfft", "hfft"):
        x = (x + 1j * rng.normal(size=shape)).astype(np.complex64)
    found = getattr(hg.fft, name)(executor.tensor(x), axis=1).to_numpy()
    np.testing.assert_allclose(found, getattr(np.fft, name)(x, axis=1), rtol=1e-4, atol=1e-4)


def test_an_axis_that_is_named_twice_keeps_its_size(executor: Any) -> None:
    x = np.random.default_rng(0).normal(size=(4, 7)).astype(np.float32)
    found = hg.fft.rfftn(executor.tensor(x), axes=(1, 1)).to_numpy()
    np.testing.assert_allclose(found, np.fft.rfftn(x, axes=(1, 1)), rtol=1e-4, atol=1e-4)
