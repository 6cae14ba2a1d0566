"""tinygrad's WEBGPU device on Dawn, its kernels replayed by TinyJit."""

# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from hologram.benchmark.functions import ADAM
from hologram.benchmark.jobs import Job, in_place
from hologram.benchmark.models.declared import MOMENTUM, RATE, Arrays, Model, Words, split
from hologram.benchmark.works import Work, model_job


def _dawn() -> Path:
    """The library inside the dawn-python wheel."""
    spec = importlib.util.find_spec("pydawn")
    if spec is None or spec.origin is None:
        raise ImportError("dawn-python, whose library tinygrad's WEBGPU device needs, is not installed")
    system = os.uname()
    name = f"libwebgpu_dawn_{system.machine}.{'dylib' if system.sysname == 'Darwin' else 'so'}"
    return Path(spec.origin).parent / "lib" / name


os.environ.setdefault("WEBGPU_PATH", str(_dawn()))
os.environ["DEV"] = "WEBGPU"
os.environ.setdefault("WEBGPU_BACKEND", "WGPUBackendType_Vulkan")

from tinygrad import Context, Device, Tensor, TinyJit  # noqa: E402  (reads the environment when it is imported)
from tinygrad.nn.optim import SGD  # noqa: E402


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + (x / 2**0.5).erf())


WORDS = Words(
    linear=lambda x, weight, bias: x @ weight if bias is None else x @ weight + bias,
    relu=lambda x: x.relu(),
    gelu=gelu,
    layer_norm=lambda x, scale, bias: x.layernorm(eps=1e-5) * scale + bias,
    attention=lambda q, k, v: q.scaled_dot_product_attention(k, v),
    swap=lambda x: x.transpose(1, 2),
    embedding=lambda table, tokens: table[tokens],
    conv=lambda x, weight, bias: x.conv2d(weight, bias, padding=1),
    pool=lambda x: x.max_pool2d((2, 2)),
    cross_entropy=lambda scores, classes: scores.sparse_categorical_crossentropy(classes),
    softmax=lambda x: x.softmax(-1),
    sigmoid=lambda x: x.sigmoid(),
    xp=SimpleNamespace(
        exp=lambda x: x.exp(), tanh=lambda x: x.tanh(), sum=lambda x: x.sum(), sqrt=lambda x: x.sqrt()
    ),
)


def _waited(call: Callable[[], Any]) -> Callable[[], Any]:
    synchronize = Device["WEBGPU"].synchronize

    def called() -> Any:
        result = call()
        synchronize()
        return result

    return called


def _replayed(function: Callable[[], Any]) -> Callable[[], Any]:
    """Compiled, and waited for: it runs, captures, replays."""
    call = _waited(TinyJit(function))
    for _ in range(3):
        call()
    return call


def _placed(inputs: Arrays) -> tuple[Any, Any, dict[str, Any]]:
    x, y, parameters = split(inputs)
    return Tensor(x).realize(), Tensor(y).realize(), {n: Tensor(a).realize() for n, a in parameters.items()}


def _forward(model: Model, inputs: Arrays) -> Callable[[], Any]:
    x, _, parameters = _placed(inputs)
    return _replayed(lambda: model.forward(WORDS, parameters, x).realize())


def _trained(model: Model, inputs: Arrays) -> Callable[[], Any]:
    """A step, which gives the loss before it."""
    x, y, parameters = _placed(inputs)
    optimiser = SGD(list(parameters.values()), lr=RATE, momentum=MOMENTUM)

    def updated() -> Any:
        with Context(TRAINING=1):
            optimiser.zero_grad()
            loss = WORDS.cross_entropy(model.forward(WORDS, parameters, x), y).backward()
            return loss.realize(*optimiser.schedule_step())

    return _waited(TinyJit(updated))


class TinyGrad:
    device = "WEBGPU"

    def prepare(self, work: Work, inputs: Arrays) -> Job | None:
        if work.lists:
            return self._adam(inputs)
        if work.model is not None:
            return model_job(work, inputs, _forward, _trained, lambda x: x.numpy())
        function = work.function
        if function is None:
            return None
        arguments = [Tensor(array).realize() for array in inputs.values()]
        replayed = TinyJit(lambda *given: function(WORDS, *given).realize())
        call = _waited(lambda: replayed(*arguments))
        for _ in range(3):  # runs, captures, replays
            call()
        return Job(call, lambda: np.array(call().numpy()))

    def _adam(self, inputs: Arrays) -> Job:
        """In place, as its optimisers do it."""
        state = [[Tensor(row).contiguous().realize() for row in rows] for rows in inputs.values()]

        @TinyJit
        def step(p, m, v, g) -> None:
            for a, b, c, d in zip(p, g, m, v, strict=True):
                c.assign(ADAM.first * c + (1 - ADAM.first) * b)
                d.assign(ADAM.second * d + (1 - ADAM.second) * b * b)
                a.assign(a - ADAM.size * c / ((d / ADAM.second_correction).sqrt() + ADAM.epsilon))
            Tensor.realize(*p, *m, *v)

        call = _waited(lambda: step(*state))
        for _ in range(3):
            call()
        write = lambda tensor, row: tensor.assign(Tensor(row)).realize()  # noqa: E731
        return in_place(inputs, state, write, lambda tensor: tensor.numpy(), call)


def open_contender(name: str, where: str) -> TinyGrad:
    return TinyGrad()
