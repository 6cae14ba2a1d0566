"""Models in tinygrad, whose device with_tinygrad chooses: a step is one TinyJit with its own optimiser."""

# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygrad import Context, Device, Tensor, TinyJit
from tinygrad.nn.optim import SGD

from hologram.benchmark.models.declared import MOMENTUM, RATE, Arrays, Model, Words, split


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
)


def _placed(inputs: Arrays) -> tuple[Any, Any, dict[str, Any]]:
    x, y, parameters = split(inputs)
    return Tensor(x).realize(), Tensor(y).realize(), {n: Tensor(a).realize() for n, a in parameters.items()}


def _replayed(function: Callable[[], Any]) -> Callable[[], Any]:
    """Waited for."""
    compiled, synchronize = TinyJit(function), Device["WEBGPU"].synchronize

    def call() -> Any:
        found = compiled()
        synchronize()
        return found

    return call


def forward(model: Model, inputs: Arrays) -> Callable[[], Any]:
    x, _, parameters = _placed(inputs)
    call = _replayed(lambda: model.forward(WORDS, parameters, x).realize())
    for _ in range(3):  # runs, captures, replays
        call()
    return call


def trained(model: Model, inputs: Arrays) -> Callable[[], Any]:
    """A step, which gives the loss before it."""
    x, y, parameters = _placed(inputs)
    optimiser = SGD(list(parameters.values()), lr=RATE, momentum=MOMENTUM)

    def updated() -> Any:
        with Context(TRAINING=1):
            optimiser.zero_grad()
            loss = WORDS.cross_entropy(model.forward(WORDS, parameters, x), y).backward()
            return loss.realize(*optimiser.schedule_step())

    call = _replayed(updated)
    return lambda: call().item()
