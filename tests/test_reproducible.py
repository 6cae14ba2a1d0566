"""Reproducible executors: the bits of the CPU on every backend, of calls and of jitted functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.text import parse_program
from hologram.foundation.config import config

TINY = 2.0**-149


@pytest.fixture(scope="module")
def on_cpu() -> Iterator[hg.Executor]:
    with hg.Executor("cpu", reproducible=True) as executor:
        yield executor


@pytest.fixture(scope="module")
def reproducing(backend: str) -> Iterator[hg.Executor]:
    try:
        executor = hg.Executor(backend, reproducible=True)
    except hg.BackendUnavailable as error:
        refuse = pytest.xfail if "cannot be reproducible" in str(error) else pytest.skip
        refuse(str(error))  # as a card's driver that rounds otherwise
    yield executor
    executor.close()


@functools.cache
def wide() -> tuple[np.ndarray, np.ndarray]:
    """Numbers of all sizes, many whose products and quotients are denormal, and all pairs of special ones."""
    random = np.random.default_rng(0)
    x, y = (random.uniform(1, 2, (2, 4000)) * random.choice((-1, 1), (2, 4000))).astype(np.float32)
    x[:2000] *= np.exp2(random.integers(-149, 127, 2000)).astype(np.float32)
    y[:2000] *= np.exp2(random.integers(-149, 127, 2000)).astype(np.float32)
    x[2000:] *= np.exp2(random.integers(-80, -60, 2000)).astype(np.float32)
    y[2000:] *= np.exp2(random.integers(-80, -60, 2000)).astype(np.float32)
    largest, least = np.finfo(np.float32).max, np.finfo(np.float32).tiny
    special = np.array(
        [0, 1, TINY, least - TINY, least, 4 * least, largest, np.inf, np.nan, 2.0**126, 0.5], np.float32
    )
    special = np.concatenate([special, -special])
    return (
        np.concatenate([x, np.repeat(special, len(special))]),
        np.concatenate([y, np.tile(special, len(special))]),
    )


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint8)


def agree(function: Callable[..., Any], on_cpu: hg.Executor, other: hg.Executor, *arrays: np.ndarray) -> None:
    wanted = bits(function(*map(on_cpu.tensor, arrays)).to_numpy())
    for each in (function, hg.jit(function)):
        for executor in {on_cpu, other}:
            assert np.array_equal(bits(each(*map(executor.tensor, arrays)).to_numpy()), wanted)


@pytest.mark.parametrize(
    "ufunc", [np.add, np.subtract, np.multiply, np.divide, np.less, np.less_equal, np.equal]
)
def test_arithmetic_is_that_of_ieee_754(ufunc: np.ufunc, reproducing: hg.Executor) -> None:
    x, y = wide()
    with np.errstate(all="ignore"):
        wanted = ufunc(x, y)
    got = ufunc(reproducing.tensor(x), reproducing.tensor(y)).to_numpy()
    if wanted.dtype == bool:
        assert np.array_equal(got, wanted)
        return
    number = ~np.isnan(wanted)
    assert np.array_equal(bits(got[number]), bits(wanted[number]))
    assert (bits(got[~number]) == bits(np.full_like(got[~number], np.nan))).all()


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: hg.exp(x) * y + hg.tanh(y),
        lambda x, y: hg.sin(x) - hg.erf(y) * 0.1,
        lambda x, y: hg.power(abs(x), y) + hg.log(abs(y)),
        lambda x, y: hg.maximum(x, y) - hg.floor(x) + 0.0,
        lambda x, y: hg.sqrt(abs(x)) / (y * y + 1e-30),
        lambda x, y: hg.fmod(x, y) + hg.copysign(x, y),
    ],
    ids=["exp", "sin", "pow", "max", "sqrt", "fmod"],
)
def test_functions(function: Any, on_cpu: hg.Executor, reproducing: hg.Executor) -> None:
    agree(function, on_cpu, reproducing, *wide())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: hg.sum(x),
        lambda x: hg.sum(x, axis=0),
        lambda x: hg.softmax(x * 0.5 + 1.0, dim=-1),
        lambda x: hg.var(x, axis=1) * 3.0,
        lambda x: x @ x.T,
        lambda x: hg.max(x, axis=0) + hg.prod(x * 0.1 + 1.0, axis=1)[:1],
        lambda x: hg.cumsum(x, axis=1),
        lambda x: hg.mean(x.astype(hg.f16), axis=1),
        lambda x: hg.argmax(hg.layer_norm(x), axis=1),
    ],
    ids=["sum", "columns", "softmax", "var", "product", "folds", "cumsum", "f16", "argmax"],
)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(5, 3001), (33, 7)], ids=["long", "short"])
def test_rows(function: Any, shape: tuple[int, ...], on_cpu: hg.Executor, reproducing: hg.Executor) -> None:
    x = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    agree(function, on_cpu, reproducing, x)


@pytest.mark.parametrize("dtype", [hg.f16, hg.bf16], ids=str)
def test_gradients_of_convolutions_in_16_bits(
    dtype: Any, on_cpu: hg.Executor, reproducing: hg.Executor
) -> None:
    """The weight's are products in f32, whose result has 16 bits."""

    def gradient(x: hg.Tensor, weight: hg.Tensor) -> hg.Tensor:
        x, weight = x.astype(dtype), weight.astype(dtype)
        return hg.grad(lambda w: hg.sum(hg.conv2d(x, w)))(weight).astype(hg.f32)

    random = np.random.default_rng(3)
    x, weight = (random.standard_normal(s, dtype=np.float32) for s in ((2, 3, 7, 6), (4, 3, 3, 2)))
    agree(gradient, on_cpu, reproducing, x, weight)
    windows = np.lib.stride_tricks.sliding_window_view(x, (5, 5), axis=(2, 3)).sum(axis=(0, 4, 5))
    got = gradient(reproducing.tensor(x), reproducing.tensor(weight)).to_numpy()
    assert np.abs(got - windows).max() < 0.1 * (1 if dtype == hg.f16 else 4)


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 2100, 3), (1, 2100, 40), (13, 300, 9), (9, 4096, 1)], ids=lambda size: str(size)
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32], ids=["f16", "f32"])
def test_products_in_pieces(
    dtype: Any, m: int, k: int, n: int, on_cpu: hg.Executor, reproducing: hg.Executor
) -> None:
    """More terms than a lane adds up, rows that 8 does not divide, operands read across memory."""
    random = np.random.default_rng(4)
    a, b = (random.standard_normal(shape).astype(dtype) for shape in ((m, k), (n, k)))
    agree(lambda a, b: a @ b.T, on_cpu, reproducing, a, b)
    wanted = a.astype(np.float64) @ b.T.astype(np.float64)
    got = (reproducing.tensor(a) @ reproducing.tensor(b).T).to_numpy()
    assert np.abs(got - wanted).max() < (2.0**-4 if dtype is np.float16 else 1e-3)


def test_sums_are_as_exact_as_any(reproducing: hg.Executor) -> None:
    x = np.random.default_rng(2).uniform(0, 1, 100_003).astype(np.float32)
    assert abs(hg.sum(reproducing.tensor(x)).item() / x.astype(np.float64).sum() - 1) < 3e-7


ZERO = """program zero rank 1 reduced 0
buffer x : {0} read
buffer out : {0} write
%0 = lane : index
%1 = load x %0 : {0}
%2 = constant 0.0 : {0}
%3 = div %2, %1 : {0}
%4 = mul %3, %1 : {0}
store out %0, %4
"""


@pytest.mark.parametrize("dtype", [hg.f32, hg.f16, hg.bf16], ids=str)
def test_constants_are_no_shortcuts(dtype: Any, on_cpu: hg.Executor, reproducing: hg.Executor) -> None:
    """0 / x is NaN where x is 0 or NaN, and -0 where it is negative: a driver that knows the 0 takes it for 0."""
    x = np.array([0, np.nan, 2, -2, -0.0, np.inf, -np.inf, 1], np.float32).astype(dtype.numpy)
    program = parse_program(ZERO.format(dtype))
    found = []
    for executor in (on_cpu, reproducing):
        out = executor.allocate(8, dtype)
        executor.run(program, {"x": executor.allocate(8, dtype).from_numpy(x), "out": out}, lanes=8)
        found.append(bits(out.to_numpy()))
    assert np.array_equal(*found)


def test_rows_without_elements(on_cpu: hg.Executor, reproducing: hg.Executor) -> None:
    agree(lambda x: hg.sum(x, axis=1), on_cpu, reproducing, np.zeros((3, 0), np.float32))
    agree(lambda x: hg.sum(x), on_cpu, reproducing, np.zeros((), np.float32))


def test_denormal_numbers_where_an_adapter_has_none(
    on_cpu: hg.Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLOGRAM_WITHOUT", "denormals,choices,contraction,division")
    try:
        executor = hg.Executor("webgpu", reproducible=True)
    except hg.BackendUnavailable as error:
        pytest.skip(str(error))
    with pytest.raises(hg.UnsupportedDType, match="f64"):
        executor.allocate(4, hg.f64)
    x, y = wide()
    functions = (lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: hg.sqrt(x - y))
    for function in (
        *functions,
        lambda x, y: hg.maximum(hg.ceil(x), y),
        lambda x, y: hg.where(x < y, -x, abs(y)),
    ):
        agree(function, on_cpu, executor, x, y)
    executor.close()


def test_what_comes_in_any_order_is_refused(reproducing: hg.Executor) -> None:
    @hg.kernel
    def total(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
        hg.atomic_add(out, 0, x[hg.index()])

    x, out = reproducing.tensor(np.ones(8, np.float32)), reproducing.zeros(1)
    with pytest.raises(hg.UnsupportedOperation, match=r"total.*atomic_add of f32 comes in any order"):
        total[8](x, out)


def test_a_device_that_rounds_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_WITHOUT", "rounding")
    try:
        hg.Executor("webgpu").close()
    except hg.BackendUnavailable as error:
        pytest.skip(str(error))
    with pytest.raises(hg.BackendUnavailable, match=r"cannot be reproducible.*quotients and square roots"):
        hg.Executor("webgpu", reproducible=True)


def test_config_sets_what_is_opened_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_REPRODUCIBLE", "0")
    hg.config(reproducible=True)
    assert config.reproducible
    with hg.Executor("cpu") as executor:
        assert executor.limits.reproducible
    with hg.Executor("cpu", reproducible=False) as executor:
        assert not executor.limits.reproducible
    hg.config(reproducible=None)
    assert not config.reproducible


def test_config_refuses_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_REPRODUCIBLE", "0")
    with pytest.raises(hg.ConfigError, match="the name of a knob is needed"):
        hg.config(reproducible=True, speed=9)
    with pytest.raises(hg.ConfigError, match="HOLOGRAM_REPRODUCIBLE must be 0 or 1"):
        hg.config(debug=1, reproducible="perhaps")
    assert not config.reproducible
    assert config.debug == 0
