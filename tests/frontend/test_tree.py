"""Dataclasses and registered classes as trees, wherever functions take trees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import hologram as hg


@dataclass
class Layer:
    weight: Any
    bias: Any
    name: str = field(default="layer", metadata={"static": True})


@dataclass(frozen=True)
class Model:
    first: Layer
    rest: dict[str, Any]

    def __post_init__(self) -> None:
        if not isinstance(self.first, Layer):
            raise TypeError("never called on stand-ins")


class Pair:
    def __init__(self, a: Any, b: Any, scale: float) -> None:
        self.a, self.b, self.scale = a, b, scale


hg.register_pytree_node(Pair, lambda p: ((p.a, p.b), p.scale), lambda scale, parts: Pair(*parts, scale=scale))


@pytest.fixture
def model(executor: hg.Executor) -> Model:
    return Model(Layer(executor.ones((3, 2)), executor.zeros((2,))), {"scale": 2.0})


def forward(model: Model, x: Any) -> Any:
    return (x @ model.first.weight + model.first.bias) * model.rest["scale"]


def test_dataclasses_in_jit_grad_vmap_and_loops(executor: hg.Executor, model: Model) -> None:
    x = executor.tensor(np.arange(12, dtype=np.float32).reshape(4, 3))
    run = hg.jit(lambda m, x: Layer(forward(m, x), None, m.first.name))
    made = run(model, x)
    assert (type(made), made.name, made.bias) == (Layer, "layer", None)
    np.testing.assert_allclose(made.weight.to_numpy(), forward(model, x).to_numpy())

    slope = hg.jit(hg.grad(lambda m, x: hg.sum(forward(m, x))))(model, x)
    assert isinstance(slope, Model)
    np.testing.assert_allclose(slope.first.bias.to_numpy(), [8, 8])
    assert slope.rest["scale"].item() == forward(model, x).sum().item() / 2

    each = hg.vmap(forward, in_axes=(None, 0))(model, x)
    np.testing.assert_allclose(each.to_numpy(), forward(model, x).to_numpy())

    def step(state: Layer, _: Any) -> Any:
        return Layer(state.weight * 2.0, state.bias + 1.0), None

    last, _ = hg.scan(step, model.first, length=3)
    assert isinstance(last, Layer)
    np.testing.assert_array_equal(last.bias.to_numpy(), [3, 3])


def test_static_fields_are_part_of_the_signature(executor: hg.Executor) -> None:
    traces = []

    @hg.jit
    def run(layer: Layer) -> Any:
        traces.append(layer.name)
        return layer.weight * (2.0 if layer.name == "twice" else 1.0)

    x = executor.ones((2,))
    for name, wanted in (("twice", 2), ("once", 1), ("twice", 2)):
        assert run(Layer(x, x, name)).sum().item() == 2 * wanted
    assert traces == ["twice", "once"]


def test_registered_classes(executor: hg.Executor) -> None:
    x, y = executor.ones((3,)), executor.full((3,), 2.0)
    swapped = hg.jit(lambda p: Pair(p.b * p.scale, p.a, p.scale))
    for scale in (3.0, 4.0):
        made = swapped(Pair(x, y, scale))
        assert (type(made), made.scale) == (Pair, scale)
        np.testing.assert_array_equal(made.a.to_numpy(), np.full(3, 2 * scale))
    with pytest.raises(ValueError, match="Pair is registered already"):
        hg.register_pytree_node(Pair, lambda p: ((), None), lambda aux, parts: Pair(1, 2, 3))
    with pytest.raises(TypeError, match="a class is needed, got 3"):
        hg.register_pytree_node(3, lambda p: ((), None), lambda aux, parts: None)  # type: ignore[arg-type]


def test_errors_name_fields(executor: hg.Executor) -> None:
    x = executor.ones((3,))
    with pytest.raises(hg.ShapeError, match=r"the state\.bias must keep its shape"):
        hg.scan(lambda s, _: (Layer(s.weight, hg.concat([s.bias, s.bias])), None), Layer(x, x), length=2)
