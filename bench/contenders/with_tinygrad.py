"""tinygrad's WEBGPU device on Dawn, its kernels replayed by TinyJit."""

# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np

from bench.contenders import Job, model_job
from bench.work import ADAM, Arrays


def _dawn() -> Path:
    """The library inside the dawn-python wheel."""
    found = importlib.util.find_spec("pydawn")
    if found is None or found.origin is None:
        raise ImportError("dawn-python, whose library tinygrad's WEBGPU device needs, is not installed")
    system = os.uname()
    name = f"libwebgpu_dawn_{system.machine}.{'dylib' if system.sysname == 'Darwin' else 'so'}"
    return Path(found.origin).parent / "lib" / name


os.environ.setdefault("WEBGPU_PATH", str(_dawn()))
os.environ["DEV"] = "WEBGPU"
os.environ.setdefault("WEBGPU_BACKEND", "WGPUBackendType_Vulkan")

from tinygrad import Device, Tensor, TinyJit  # noqa: E402  (reads the environment when it is imported)

from bench.contenders import tinygrad_models as models  # noqa: E402
from bench.contenders.tinygrad_models import gelu  # noqa: E402

FUNCTIONS = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "relu": lambda x: x.relu(),
    "exp": lambda x: x.exp(),
    "tanh": lambda x: x.tanh(),
    "gelu": gelu,
    "sum": lambda x: x.sum(),
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x, weight, bias: x.layernorm(eps=1e-5) * weight + bias,
    "matmul": lambda a, b: a @ b,
    "chain": lambda a, b: (a * b + a).sigmoid() * b.tanh() + a.exp(),
    "mlp": lambda x, w1, b1, w2, b2: gelu(x @ w1 + b1) @ w2 + b2,
    "attention": lambda q, k, v: q.scaled_dot_product_attention(k, v),
}


class TinyGrad:
    device = "WEBGPU"

    def prepare(self, work: str, inputs: Arrays) -> Job:
        if work == "adam":
            return self._adam(inputs)
        job = model_job(work, inputs, models.forward, models.trained, lambda x: x.numpy())
        if job is not None:
            return job
        arguments = [Tensor(array).realize() for array in inputs.values()]
        function = FUNCTIONS[work]
        replayed = TinyJit(lambda *args: function(*args).realize())
        for _ in range(3):  # runs, captures, replays
            replayed(*arguments)
        synchronize = Device["WEBGPU"].synchronize

        def call() -> None:
            replayed(*arguments)
            synchronize()

        return Job(call, lambda: np.array(replayed(*arguments).numpy()))

    def _adam(self, inputs: Arrays) -> Job:
        """In place, as its optimisers do it."""
        state = {name: [Tensor(row).contiguous().realize() for row in inputs[name]] for name in "pgmv"}

        @TinyJit
        def step(p, g, m, v) -> None:
            for a, b, c, d in zip(p, g, m, v, strict=True):
                c.assign(ADAM.first * c + (1 - ADAM.first) * b)
                d.assign(ADAM.second * d + (1 - ADAM.second) * b * b)
                a.assign(a - ADAM.size * c / ((d / ADAM.second_correction).sqrt() + ADAM.epsilon))
            Tensor.realize(*p, *m, *v)

        synchronize = Device["WEBGPU"].synchronize

        def call() -> None:
            step(**state)
            synchronize()

        for _ in range(3):
            call()

        def result() -> np.ndarray:
            for name in "pmv":
                for tensor, row in zip(state[name], inputs[name], strict=True):
                    tensor.assign(Tensor(row)).realize()
            call()
            return np.array([[tensor.numpy() for tensor in state[name]] for name in "pmv"])

        return Job(call, result)


def open_contender(backend: str) -> TinyGrad:
    return TinyGrad()
