"""Models in hologram: one jitted function a step, gradients included, which gives its memory away."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import hologram as hg
from hologram.benchmark.models.declared import MOMENTUM, RATE, Arrays, Model, Words, split

WORDS = Words(
    linear=lambda x, weight, bias: x @ weight if bias is None else x @ weight + bias,
    relu=hg.relu,
    gelu=hg.gelu,
    layer_norm=lambda x, scale, bias: hg.layer_norm(x, scale, bias),
    attention=lambda q, k, v: hg.scaled_dot_product_attention(q, k, v),
    swap=lambda x: x.permute(0, 2, 1, 3),
    embedding=lambda table, tokens: hg.embedding(tokens, table),
    conv=lambda x, weight, bias: hg.conv2d(x, weight, bias, padding=1),
    pool=lambda x: hg.max_pool2d(x, 2),
    cross_entropy=lambda scores, classes: hg.cross_entropy_loss(scores, classes),
)


def _placed(executor: hg.Executor, inputs: Arrays) -> tuple[Any, Any, dict[str, Any]]:
    x, y, parameters = split(inputs)
    return executor.tensor(x), executor.tensor(y), {n: executor.tensor(a) for n, a in parameters.items()}


def forward(executor: hg.Executor, model: Model, inputs: Arrays, jit: bool = True) -> Callable[[], Any]:
    x, _, parameters = _placed(executor, inputs)

    def function(p: Any, x: Any) -> Any:
        return model.forward(WORDS, p, x)

    return partial(hg.jit(function) if jit else function, parameters, x)


def update(model: Model) -> Callable[..., Any]:
    """A step as a function of parameters, velocities, the batch and its classes."""

    def updated(p: Any, v: Any, x: Any, y: Any) -> Any:
        loss, g = hg.value_and_grad(lambda p: WORDS.cross_entropy(model.forward(WORDS, p, x), y))(p)
        v = {name: MOMENTUM * v[name] + g[name] for name in p}
        return {name: p[name] - RATE * v[name] for name in p}, v, loss

    return updated


def trained(executor: hg.Executor, model: Model, inputs: Arrays, jit: bool = True) -> Callable[[], Any]:
    """A step, which gives the loss before it."""
    x, y, parameters = _placed(executor, inputs)
    velocities = {name: executor.zeros(p.shape) for name, p in parameters.items()}
    compiled = hg.jit(update(model), donate=(0, 1)) if jit else update(model)

    def step() -> Any:
        nonlocal parameters, velocities
        parameters, velocities, loss = compiled(parameters, velocities, x, y)
        return loss

    return step
