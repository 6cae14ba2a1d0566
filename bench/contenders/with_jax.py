"""JAX: jitted functions, waited for."""

# pyright: reportMissingImports=false

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from bench.contenders import Job
from bench.work import Arrays


def _layer_norm(x, weight, bias):
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    scale = jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
    return centred * scale * weight + bias


FUNCTIONS = {
    "add": jnp.add,
    "mul": jnp.multiply,
    "relu": jax.nn.relu,
    "exp": jnp.exp,
    "tanh": jnp.tanh,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "sum": jnp.sum,
    "softmax": lambda x: jax.nn.softmax(x, axis=-1),
    "layer_norm": _layer_norm,
    "matmul": jnp.matmul,
}


class Jax:
    def __init__(self) -> None:
        self.cpu = jax.devices("cpu")[0]
        self.device = str(self.cpu)

    def prepare(self, work: str, inputs: Arrays) -> Job:
        names = ("x", "weight", "bias") if work == "layer_norm" else tuple(inputs)
        arguments = [jax.device_put(inputs[n], self.cpu) for n in names]
        compiled = jax.jit(FUNCTIONS[work])
        return Job(
            lambda: compiled(*arguments).block_until_ready(),
            lambda: np.array(compiled(*arguments)),
        )


def open_contender(suite: str) -> Jax:
    return Jax()
