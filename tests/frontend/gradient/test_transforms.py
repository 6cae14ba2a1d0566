"""hg.grad and its kin: arguments and results, nesting, views and writes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import hologram as hg

RNG = np.random.default_rng(5)


class Layer(NamedTuple):
    weight: Any
    bias: Any


def near(found: Any, wanted: Any, tolerance: float = 2e-5) -> None:
    found = found.to_numpy() if isinstance(found, hg.Tensor) else found
    wanted = wanted.to_numpy() if isinstance(wanted, hg.Tensor) else wanted
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


# What goes in and what comes out.


def test_one_argument_or_several(x: hg.Tensor, w: hg.Tensor) -> None:
    def loss(x, w):
        return hg.sum(x @ w)

    by_x, by_w = w.to_numpy().sum(1), x.to_numpy().sum(0)
    near(hg.grad(loss)(x, w), np.broadcast_to(by_x, (4, 6)))
    near(hg.grad(loss, 1)(x, w), np.broadcast_to(by_w[:, None], (6, 3)))
    near(hg.grad(loss, argnums=-1)(x, w), np.broadcast_to(by_w[:, None], (6, 3)))
    found = hg.grad(loss, argnums=(1, 0))(x, w)
    assert isinstance(found, tuple)
    near(found[0], np.broadcast_to(by_w[:, None], (6, 3)))
    (only,) = hg.grad(loss, argnums=[0])(x, w)
    near(only, np.broadcast_to(by_x, (4, 6)))


def test_trees(x: hg.Tensor, w: hg.Tensor) -> None:
    layers = {"first": Layer(w, [w[0] * 2.0]), "empty": ()}

    def loss(layers, x, *, scale):
        layer = layers["first"]
        return hg.sum(x @ layer.weight + layer.bias[0]) * scale

    value, found = hg.value_and_grad(loss)(layers, x, scale=2.0)
    assert value.shape == ()
    assert found["empty"] == ()
    assert isinstance(found["first"], Layer)
    near(found["first"].weight, np.broadcast_to(2 * x.to_numpy().sum(0)[:, None], (6, 3)))
    near(found["first"].bias[0], np.full(3, 8.0))


def test_has_aux(x: hg.Tensor) -> None:
    def loss(x):
        y = x * 3.0
        return hg.sum(y), {"y": y, "text": "kept"}

    found, aux = hg.grad(loss, has_aux=True)(x)
    (value, again), same = hg.value_and_grad(loss, has_aux=True)(x)
    near(found, np.full((4, 6), 3.0))
    near(same, found)
    near(aux["y"], x.to_numpy() * 3)
    near(again["y"], aux["y"])
    assert aux["text"] == "kept"
    assert type(value) is type(aux["y"]) is hg.Tensor


def test_vjp_may_be_called_again(x: hg.Tensor, w: hg.Tensor) -> None:
    result, pullback = hg.vjp(hg.matmul, x, w)
    near(result, x.to_numpy() @ w.to_numpy(), 1e-4)
    for factor in (1.0, 2.0):
        cotangent = np.full((4, 3), factor, np.float32)
        by_x, by_w = pullback(cotangent)
        near(by_x, cotangent @ w.to_numpy().T)
        near(by_w, x.to_numpy().T @ cotangent)
    pair, back, aux = hg.vjp(lambda a: ((a * 2.0, a + 1.0), "aux"), x, has_aux=True)
    assert aux == "aux"
    near(back((pair[0], pair[1]))[0], 2 * pair[0].to_numpy() + pair[1].to_numpy())


def test_numbers_and_arrays_are_arguments(executor: hg.Executor, x: hg.Tensor) -> None:
    found = hg.grad(lambda scale, x: hg.sum(x * scale))(2.0, x)
    assert (found.shape, found.dtype) == ((), hg.f32)
    near(found, np.asarray(x.to_numpy().sum()), 1e-4)
    array = RNG.standard_normal((4, 6)).astype(np.float32)
    near(hg.grad(lambda a, x: hg.sum(a * x))(array, x), x)
    with hg.use_executor(executor):
        alone = hg.grad(lambda a: hg.sum(a * a))(array)
        near(hg.grad(lambda t: t * t)(3.0), np.asarray(6.0))
    assert alone.executor is executor
    near(alone, 2 * array)


def test_what_does_not_matter_has_zeros(x: hg.Tensor, w: hg.Tensor) -> None:
    found = hg.grad(lambda x, w: hg.sum(x), argnums=(0, 1))(x, w)
    near(found[1], np.zeros((6, 3)))
    near(hg.grad(lambda x: hg.sum(hg.stop_gradient(x * 2.0)) + hg.sum(hg.floor(x)))(x), np.zeros((4, 6)))
    found = hg.grad(lambda x: hg.sum(x * hg.stop_gradient({"t": x})["t"]))(x)
    near(found, x)
    assert hg.stop_gradient(x) is x


# Derivatives of derivatives, and under hg.jit.


def test_second_and_third_derivative(executor: hg.Executor) -> None:
    x = executor.tensor(np.linspace(-2, 2, 9).astype(np.float32))
    total = lambda f: lambda x: hg.sum(f(x))  # noqa: E731
    first = hg.grad(total(hg.tanh))
    second = hg.grad(total(first))
    third = hg.grad(total(second))
    t = np.tanh(x.to_numpy().astype(np.float64))
    near(first(x), 1 - t**2)
    wave = hg.grad(hg.grad(hg.grad(lambda v: hg.sin(v) * hg.exp(v))))
    number = executor.tensor(np.float32(2.0))
    wanted = 2 * np.exp(2.0) * (np.cos(2.0) - np.sin(2.0))
    near(wave(number), np.asarray(wanted), 1e-4)
    near(hg.jit(wave)(number), np.asarray(wanted), 1e-4)
    near(second(x), -2 * t * (1 - t**2))
    near(third(x), (6 * t**2 - 2) * (1 - t**2))
    near(hg.jit(third)(x), third(x))
    near(hg.grad(lambda x: hg.sum(hg.jit(first)(x)))(x), second(x))


def test_closed_over_by_an_inner_derivative(x: hg.Tensor) -> None:
    def outer(x):
        inner = hg.grad(lambda y: hg.sum(x * y * y))(x * 1.0)
        return hg.sum(inner)  # 2 x * x

    near(hg.grad(outer)(x), 4 * x.to_numpy())


@pytest.mark.parametrize("order", ["jit of grad", "grad of jit", "both"])
def test_with_jit(x: hg.Tensor, w: hg.Tensor, order: str) -> None:
    def loss(w, x):
        return hg.mean(hg.gelu(x @ w) ** 2)

    eager = hg.value_and_grad(loss)(w, x)
    compiled = {
        "jit of grad": lambda: hg.jit(hg.value_and_grad(loss)),
        "grad of jit": lambda: hg.value_and_grad(hg.jit(loss)),
        "both": lambda: hg.jit(hg.value_and_grad(hg.jit(loss))),
    }[order]()
    for _ in range(3):
        value, found = compiled(w, x)
        near(value, eager[0])
        near(found, eager[1])


def test_a_training_step_with_donation(executor: hg.Executor, x: hg.Tensor) -> None:
    target = executor.tensor(RNG.standard_normal((4, 3)).astype(np.float32))

    @hg.jit(donate=0)
    def step(layer, x, rate):
        value, found = hg.value_and_grad(lambda p: hg.mse_loss(x @ p.weight + p.bias, target))(layer)
        return value, Layer(layer.weight - rate * found.weight, layer.bias - rate * found.bias)

    layer = Layer(executor.zeros((6, 3)), executor.zeros((3,)))
    values = []
    for _ in range(100):
        value, layer = step(layer, x, 0.3)
        values.append(value.item())
    assert values[-1] < 0.5 * values[0]


# Views and writes.


def test_views(executor: hg.Executor, x: hg.Tensor) -> None:
    wide = x.to_numpy()
    for view in (
        lambda x: x[1:3, ::2],
        lambda x: x[::-1, ::-2],
        lambda x: x.T[2],
        lambda x: x[3].expand(2, 6),
        lambda x: x.expand(2, 4, 6)[1, 2:],
        lambda x: x.reshape(2, 2, 6)[:, 0],
        lambda x: x[None, :, None],
        lambda x: x[2:2],
    ):
        wanted = np.zeros_like(wide)
        weight = executor.tensor(RNG.uniform(0.5, 1.5, view(x).shape).astype(np.float32))
        index = executor.tensor(np.arange(24, dtype=np.float32).reshape(4, 6))
        np.add.at(wanted.reshape(-1), view(index).to_numpy().astype(int).ravel(), weight.to_numpy().ravel())
        near(hg.grad(lambda x, view=view, weight=weight: hg.sum(view(x) * weight))(x), wanted)
        near(hg.jit(hg.grad(lambda x, view=view, weight=weight: hg.sum(view(x) * weight)))(x), wanted)


@pytest.mark.parametrize("given", ["contiguous", "transposed", "strided", "repeated", "offset"])
def test_arguments_that_are_views(executor: hg.Executor, given: str) -> None:
    base = executor.tensor(RNG.standard_normal((8, 8)).astype(np.float32))
    x = {
        "contiguous": base,
        "transposed": base.T,
        "strided": base[::2, ::-3],
        "repeated": base[0].expand(5, 8),
        "offset": base[3],
    }[given]
    near(hg.grad(lambda x: hg.sum(x * x))(x), 2 * x.to_numpy())
    part = hg.grad(lambda x: hg.sum(x[1:] * x[1:]))(x)
    wanted = 2 * x.to_numpy()
    wanted[0] = 0
    near(part, wanted)


def test_writes_to_tensors_made_inside(x: hg.Tensor) -> None:
    def loss(x):
        y = x * 2.0
        kept = y * y
        y += 1.0  # kept is of the old one
        y[2:4] = 0.0
        y[0] = x[1] * 3.0
        y[:, 1] = x[:, 0]
        z = y[1:3]
        z *= x[0]
        return hg.sum(kept) + hg.sum(y * y)

    def by_hand(x):
        kept = (2.0 * x) * (2.0 * x)
        first = hg.concat([x[1:2] * 3.0, (x[1:2] * 2.0 + 1.0) * 1.0], axis=0)
        y = hg.concat([first, x[2:4] * 0.0], axis=0)
        y = hg.concat([y[:, :1], x[:, :1], y[:, 2:]], axis=1)
        y = hg.concat([y[:1], y[1:3] * x[0], y[3:]], axis=0)
        return hg.sum(kept) + hg.sum(y * y)

    near(hg.grad(loss)(x), hg.grad(by_hand)(x), 1e-4)
    near(hg.jit(hg.grad(loss))(x), hg.grad(by_hand)(x), 1e-4)


def test_writes_into_new_memory(executor: hg.Executor, x: hg.Tensor) -> None:
    def loss(x):
        rows = executor.zeros((4, 6))
        for k in range(4):
            rows[k] = x[k] * float(k)
        rows[1, 2:] = 7.0
        return hg.sum(rows * rows)

    wanted = 2 * x.to_numpy() * np.arange(4, dtype=np.float32)[:, None] ** 2
    wanted[1, 2:] = 0
    near(hg.grad(loss)(x), wanted, 1e-4)


def test_broadcasting_sums_back(executor: hg.Executor, x: hg.Tensor) -> None:
    row = executor.tensor(RNG.standard_normal(6).astype(np.float32))
    column = executor.tensor(RNG.standard_normal((4, 1)).astype(np.float32))
    number = executor.tensor(np.float32(1.5))
    found = hg.grad(lambda *p: hg.sum(x * p[0] * p[1] + p[2]), argnums=(0, 1, 2))(row, column, number)
    near(found[0], (x.to_numpy() * column.to_numpy()).sum(0), 1e-4)
    near(found[1], (x.to_numpy() * row.to_numpy()).sum(1, keepdims=True), 1e-4)
    near(found[2], np.asarray(24.0))


def test_mixed_float_types(executor: hg.Executor, x: hg.Tensor) -> None:
    half = x.astype("f16")
    found = hg.grad(lambda h: hg.sum(h * x))(half)
    assert found.dtype == hg.f16
    near(found.astype("f32"), x.to_numpy(), 1e-2)


def test_constants_may_steer_python(x: hg.Tensor) -> None:
    def loss(x):
        if hg.max(x) > 0:  # a comparison is a step
            return hg.sum(x)
        return hg.sum(-x)

    near(hg.grad(loss)(x), np.ones((4, 6)))


# A user's own.


def test_custom_gradient(x: hg.Tensor) -> None:
    @hg.custom_gradient
    def straight(x):
        return hg.round(x), lambda cotangent: (cotangent,)

    near(straight(x), np.round(x.to_numpy()))
    near(hg.grad(lambda x: hg.sum(straight(x * 2.0) * 3.0))(x), np.full((4, 6), 6.0))
    near(hg.jit(hg.grad(lambda x: hg.sum(straight(x * 2.0) * 3.0)))(x), np.full((4, 6), 6.0))

    @hg.custom_gradient
    def product(x, y):
        return {"xy": x * y}, lambda c: (c["xy"] * y * 10.0, c["xy"] * x * 10.0)

    found = hg.grad(lambda x: hg.sum(product(x, x + 1.0)["xy"]))(x)
    near(found, 10 * (2 * x.to_numpy() + 1), 1e-4)
    second = hg.grad(lambda x: hg.sum(hg.grad(lambda x: hg.sum(product(x, x)["xy"]))(x)))(x)
    near(second, np.full((4, 6), 20.0), 1e-4)


CUBE = """
program cube rank 1 reduced 0
buffer x : f32 read
buffer out : f32 write
%0 = coordinate 0 : index
%1 = load x %0 : f32
%2 = mul %1, %1 : f32
%3 = mul %2, %1 : f32
store out %0, %3
"""


def test_custom_gradient_of_a_program(executor: hg.Executor, x: hg.Tensor) -> None:
    @hg.custom_gradient
    def cubed(x):
        out = executor.empty(x.shape)
        executor.run(CUBE, {"x": x, "out": out}, lanes=x.size)
        return out, lambda c: c * 3.0 * x * x

    near(cubed(x), x.to_numpy() ** 3, 1e-4)
    near(hg.grad(lambda x: hg.sum(cubed(x * 2.0)))(x), 24 * x.to_numpy() ** 2, 1e-4)


def test_what_a_pullback_gives_is_checked(x: hg.Tensor) -> None:
    wrong = hg.custom_gradient(lambda a, b: (a * b, lambda c: c))
    with pytest.raises(hg.GradientError, match="a cotangent for each of 2"):
        hg.grad(lambda x: hg.sum(wrong(x, x)))(x)
