"""JAX: jitted functions, waited for; what a step replaces is donated."""

# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench import training
from bench.contenders import Job, jax_models, model_job
from bench.work import ADAM, Arrays


def _layer_norm(x, weight, bias):
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    scale = jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
    return centred * scale * weight + bias


def _mlp(x, w1, b1, w2, b2):
    return jax.nn.gelu(x @ w1 + b1, approximate=False) @ w2 + b2


def _adam(p, m, v, g):
    m = [ADAM.first * a + (1 - ADAM.first) * b for a, b in zip(m, g, strict=True)]
    v = [ADAM.second * a + (1 - ADAM.second) * b * b for a, b in zip(v, g, strict=True)]
    scales = [jnp.sqrt(b / ADAM.second_correction) + ADAM.epsilon for b in v]
    p = [a - ADAM.size * b / c for a, b, c in zip(p, m, scales, strict=True)]
    return p, m, v


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
    "chain": lambda a, b: jax.nn.sigmoid(a * b + a) * jnp.tanh(b) + jnp.exp(a),
    "mlp": _mlp,
    "training_step": lambda *arrays: training.step(jnp, *arrays),
}


def _flat(result: Any) -> np.ndarray:
    return training.flat(result) if isinstance(result, tuple) else np.array(result)


class Jax:
    def __init__(self) -> None:
        self.cpu = jax.devices("cpu")[0]
        self.device = str(self.cpu)

    def prepare(self, work: str, inputs: Arrays) -> Job:
        if work == "adam":
            return self._adam(inputs)
        job = model_job(work, inputs, jax_models.forward, jax_models.trained)
        if job is not None:
            return job
        arguments = [jax.device_put(values, self.cpu) for values in inputs.values()]
        compiled = jax.jit(FUNCTIONS[work])
        return Job(
            lambda: jax.block_until_ready(compiled(*arguments)),
            lambda: _flat(compiled(*arguments)),
        )

    def _adam(self, inputs: Arrays) -> Job:
        def tensors(name: str) -> list[jax.Array]:
            return [jax.device_put(row, self.cpu) for row in inputs[name]]

        compiled = jax.jit(_adam, donate_argnums=(0, 1, 2))
        g = tensors("g")

        def fresh() -> tuple[list[jax.Array], ...]:
            # A copy of its own: memory shared with NumPy cannot be donated.
            return tuple([jnp.array(x, copy=True) for x in tensors(name)] for name in ("p", "m", "v"))

        state = fresh()

        def step() -> None:
            nonlocal state
            state = compiled(*state, g)
            jax.block_until_ready(state)

        def result() -> np.ndarray:
            nonlocal state
            state = fresh()
            step()
            return np.array(state)

        return Job(step, result)


def open_contender(backend: str) -> Jax:
    return Jax()
