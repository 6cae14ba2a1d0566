"""Models in JAX: one jitted function a step, which gives its memory away."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from hologram.benchmark.models.declared import MOMENTUM, RATE, Arrays, Model, Words, split


def _layer_norm(x, scale, bias):
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * scale + bias


def _attention(q, k, v):
    found = jax.nn.softmax(q @ k.swapaxes(-2, -1) / q.shape[-1] ** 0.5, axis=-1)
    return found @ v


def _pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def _cross_entropy(scores, classes):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), classes[:, None], axis=1)
    return -jnp.mean(chosen)


WORDS = Words(
    linear=lambda x, weight, bias: x @ weight if bias is None else x @ weight + bias,
    relu=jax.nn.relu,
    gelu=lambda x: jax.nn.gelu(x, approximate=False),
    layer_norm=_layer_norm,
    attention=_attention,
    swap=lambda x: x.swapaxes(1, 2),
    embedding=lambda table, tokens: table[tokens],
    conv=lambda x, weight, bias: (
        jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME") + bias[:, None, None]
    ),
    pool=_pool,
    cross_entropy=_cross_entropy,
)


def _placed(inputs: Arrays) -> tuple[Any, Any, dict[str, Any]]:
    """On the device; parameters as copies, since memory shared with NumPy cannot be donated."""
    x, y, parameters = split(inputs)
    return jnp.asarray(x), jnp.asarray(y), {n: jnp.array(a, copy=True) for n, a in parameters.items()}


def forward(model: Model, inputs: Arrays) -> Callable[[], jax.Array]:
    x, _, parameters = _placed(inputs)
    function = jax.jit(lambda p, x: model.forward(WORDS, p, x))
    return lambda: jax.block_until_ready(function(parameters, x))


def trained(model: Model, inputs: Arrays) -> Callable[[], jax.Array]:
    """A step, which gives the loss before it."""
    x, y, parameters = _placed(inputs)
    velocities = jax.tree.map(jnp.zeros_like, parameters)

    def updated(p: Any, v: Any, x: Any, y: Any) -> Any:
        loss, g = jax.value_and_grad(lambda p: WORDS.cross_entropy(model.forward(WORDS, p, x), y))(p)
        v = jax.tree.map(lambda v, g: MOMENTUM * v + g, v, g)
        return jax.tree.map(lambda p, v: p - RATE * v, p, v), v, loss

    compiled = jax.jit(updated, donate_argnums=(0, 1))

    def step() -> jax.Array:
        nonlocal parameters, velocities
        parameters, velocities, loss = jax.block_until_ready(compiled(parameters, velocities, x, y))
        return loss

    return step
