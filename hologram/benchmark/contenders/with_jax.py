"""JAX: jitted functions, waited for; what a step replaces is donated."""

# pyright: reportMissingImports=false

from __future__ import annotations

import jax
import jax.numpy as jnp

from hologram.benchmark.contenders.arrays import ArrayLibrary
from hologram.benchmark.jobs import Call
from hologram.benchmark.models.declared import Words


def _layer_norm(x, scale, bias):
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * scale + bias


def _attention(q, k, v):
    return jax.nn.softmax(q @ k.swapaxes(-2, -1) / q.shape[-1] ** 0.5, axis=-1) @ v


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
    pool=lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
    cross_entropy=_cross_entropy,
    softmax=lambda x: jax.nn.softmax(x, axis=-1),
    sigmoid=jax.nn.sigmoid,
    running_minimum=jax.lax.cummin,
    loops=jax.lax,
    xp=jnp,
)


def _waited(call: Call) -> Call:
    return lambda: jax.block_until_ready(call())


def open_contender(name: str, where: str) -> ArrayLibrary:
    cpu = jax.devices("cpu")[0]
    return ArrayLibrary(
        WORDS,
        lambda array: jax.device_put(array, cpu),
        compiled=lambda function, donate=(): jax.jit(function, donate_argnums=donate),
        value_and_grad=jax.value_and_grad,
        owned=lambda array: jnp.array(
            jax.device_put(array, cpu), copy=True
        ),  # memory of NumPy's cannot be donated
        waited=_waited,
        device=str(cpu),
    )
