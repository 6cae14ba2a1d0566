"""Models in PyTorch, on the CPU where no other device is named: autograd, and its fused optimiser."""

# pyright: reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from hologram.benchmark.models.declared import MOMENTUM, RATE, Arrays, Model, Words, split

WORDS = Words(
    linear=lambda x, weight, bias: functional.linear(x, weight.T, bias),
    relu=torch.relu,
    gelu=functional.gelu,
    layer_norm=lambda x, scale, bias: functional.layer_norm(x, (x.shape[-1],), scale, bias, 1e-5),
    attention=functional.scaled_dot_product_attention,
    swap=lambda x: x.transpose(1, 2),
    embedding=lambda table, tokens: functional.embedding(tokens, table),
    conv=lambda x, weight, bias: functional.conv2d(x, weight, bias, padding=1),
    pool=lambda x: functional.max_pool2d(x, 2),
    cross_entropy=functional.cross_entropy,
)

Compile = Callable[[Any], Any]


def as_it_is(function: Any) -> Any:
    return function


def forward(
    model: Model, inputs: Arrays, compiled: Compile = as_it_is, device: str = "cpu"
) -> Callable[[], torch.Tensor]:
    """The forward pass, without autograd."""
    x, _, given = split(inputs)
    parameters = {name: torch.from_numpy(a).to(device) for name, a in given.items()}
    tokens = torch.from_numpy(x).to(device)
    function = compiled(lambda p, x: model.forward(WORDS, p, x))

    def call() -> torch.Tensor:
        with torch.no_grad():
            return function(parameters, tokens)

    return call


def trained(
    model: Model, inputs: Arrays, compiled: Compile = as_it_is, device: str = "cpu"
) -> Callable[[], torch.Tensor]:
    """A step, which gives the loss before it."""
    given, classes, start = split(inputs)
    x, y = torch.from_numpy(given).to(device), torch.from_numpy(classes).long().to(device)
    parameters = {name: torch.from_numpy(a.copy()).to(device).requires_grad_() for name, a in start.items()}
    optimiser = torch.optim.SGD(parameters.values(), lr=RATE, momentum=MOMENTUM, fused=True)
    loss_of = compiled(lambda p, x, y: WORDS.cross_entropy(model.forward(WORDS, p, x), y))

    def step() -> torch.Tensor:
        with torch.enable_grad():
            loss = loss_of(parameters, x, y)
            loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return loss.detach()

    return step


def to_numpy(found: torch.Tensor) -> np.ndarray:
    return found.detach().cpu().numpy()
