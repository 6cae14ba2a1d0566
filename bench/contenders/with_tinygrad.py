"""tinygrad's WEBGPU device on Dawn, its kernels replayed by TinyJit."""

# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np

from bench.contenders import Job
from bench.work import Arrays


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

FUNCTIONS = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "relu": lambda x: x.relu(),
    "exp": lambda x: x.exp(),
    "tanh": lambda x: x.tanh(),
    "gelu": lambda x: 0.5 * x * (1 + (x / 2**0.5).erf()),
    "sum": lambda x: x.sum(),
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x, weight, bias: x.layernorm(eps=1e-5) * weight + bias,
    "matmul": lambda a, b: a @ b,
}


class TinyGrad:
    device = "WEBGPU"

    def prepare(self, work: str, inputs: Arrays) -> Job:
        names = ("x", "weight", "bias") if work == "layer_norm" else tuple(inputs)
        arguments = [Tensor(inputs[n]).realize() for n in names]
        function = FUNCTIONS[work]
        replayed = TinyJit(lambda *args: function(*args).realize())
        for _ in range(3):  # runs, captures, replays
            replayed(*arguments)
        synchronize = Device["WEBGPU"].synchronize

        def call() -> None:
            replayed(*arguments)
            synchronize()

        return Job(call, lambda: np.array(replayed(*arguments).numpy()))


def open_contender(suite: str) -> TinyGrad:
    return TinyGrad()
