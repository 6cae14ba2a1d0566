"""PyTorch: on the CPU, on a card, or on our own device; its own kernels or compiled; with out= where they have it.

One is a place for whole programs and a contender for works alike.
"""

# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from hologram.benchmark.functions import ADAM, RATE, TENSORS, flat
from hologram.benchmark.jobs import Call, Job, as_it_is, in_place
from hologram.benchmark.models.declared import MOMENTUM, Arrays, Model, Words, split
from hologram.benchmark.models.declared import RATE as MODEL_RATE
from hologram.benchmark.programs.declared import Array
from hologram.benchmark.works import Work, model_job
from hologram.foundation import lazy
from hologram.foundation.frozen import frozen

# By name: it stands above us.
hologram_torch = lazy.module("hologram_torch.module")
torch_devices = lazy.module("hologram_torch.device.devices")
Tensors = list[torch.Tensor]
COMPILED = ("chain", "softmax", "layer_norm", "mlp")  # functions that compilers are given

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
    softmax=lambda x: torch.softmax(x, -1),
    sigmoid=torch.sigmoid,
    xp=torch,
)


def forward(model: Model, inputs: Arrays, compiled: Any = as_it_is, device: str = "cpu") -> Call:
    """The forward pass, without autograd."""
    x, _, given = split(inputs)
    parameters = {name: torch.from_numpy(a).to(device) for name, a in given.items()}
    tokens = torch.from_numpy(x).to(device)
    function = compiled(lambda p, x: model.forward(WORDS, p, x))

    def call() -> torch.Tensor:
        with torch.no_grad():
            return function(parameters, tokens)

    return call


def trained(model: Model, inputs: Arrays, compiled: Any = as_it_is, device: str = "cpu") -> Call:
    """A step, which gives the loss before it."""
    given, classes, start = split(inputs)
    x, y = torch.from_numpy(given).to(device), torch.from_numpy(classes).long().to(device)
    parameters = {name: torch.from_numpy(a.copy()).to(device).requires_grad_() for name, a in start.items()}
    optimiser = torch.optim.SGD(parameters.values(), lr=MODEL_RATE, momentum=MOMENTUM, fused=True)
    loss_of = compiled(lambda p, x, y: WORDS.cross_entropy(model.forward(WORDS, p, x), y))

    def step() -> torch.Tensor:
        with torch.enable_grad():
            loss = loss_of(parameters, x, y)
            loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return loss.detach()

    return step


def _chain(a: torch.Tensor, b: torch.Tensor) -> Call:
    gate, out, grown = torch.empty_like(a), torch.empty_like(a), torch.empty_like(a)

    def chain() -> torch.Tensor:
        torch.mul(a, b, out=gate)
        torch.add(gate, a, out=gate)
        torch.sigmoid(gate, out=gate)
        torch.tanh(b, out=out)
        torch.mul(out, gate, out=out)
        torch.exp(a, out=grown)
        return torch.add(out, grown, out=out)

    return chain


def _mlp(x: torch.Tensor, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor, b2: torch.Tensor) -> Call:
    hidden, out = x.new_empty(len(x), len(b1)), x.new_empty(len(x), len(b2))

    def mlp() -> torch.Tensor:
        torch.addmm(b1, x, w1, out=hidden)
        torch._C._nn.gelu(hidden, out=hidden)
        return torch.addmm(b2, hidden, w2, out=out)

    return mlp


def _training_step(x: Any, y: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Call:
    def step() -> tuple[torch.Tensor, ...]:
        hidden = torch.relu(torch.addmm(b1, x, w1))
        d = (torch.softmax(torch.addmm(b2, hidden, w2), dim=1) - y) * (1 / len(x))
        below = (d @ w2.T) * (hidden > 0)
        return (
            torch.addmm(w1, x.T, below, alpha=-RATE),
            torch.sub(b1, below.sum(dim=0), alpha=RATE),
            torch.addmm(w2, hidden.T, d, alpha=-RATE),
            torch.sub(b2, d.sum(dim=0), alpha=RATE),
        )

    return step


def _layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Call:
    """The functional form has no out=."""
    out, mean, rstd = torch.empty_like(x), *(x.new_empty(len(x), 1) for _ in range(2))
    norm, shape = torch.ops.aten.native_layer_norm.out, [x.shape[-1]]
    return lambda: norm(x, shape, weight, bias, 1e-5, out0=out, out1=mean, out2=rstd)[0]


def _into(function: Any, *more: Any, **keywords: Any) -> Callable[..., Call]:
    """A function of its operands, into memory of the first one's shape."""

    def made(*operands: torch.Tensor) -> Call:
        return partial(function, *operands, *more, **keywords, out=torch.empty_like(operands[0]))

    return made


# From tensors to a call that gives its result.
EAGER: dict[str, Callable[..., Call]] = {
    "add": _into(torch.add),
    "multiply": _into(torch.mul),
    "relu": _into(torch.clamp_min, 0),  # torch.relu takes no out=
    "exp": _into(torch.exp),
    "tanh": _into(torch.tanh),
    "gelu": _into(torch._C._nn.gelu),  # functional.gelu is this one and does not say that it takes out=
    "sum": lambda x: partial(torch.sum, x, dim=0, out=x.new_empty(())),
    "softmax": _into(torch.softmax, -1),
    "layer_norm": _layer_norm,
    "matmul": _into(torch.mm),
    "chain": _chain,
    "mlp": _mlp,
    "training_step": _training_step,
}


def _foreach(p: Tensors, m: Tensors, v: Tensors, g: Tensors) -> None:
    """What torch.optim.Adam(foreach=True) does, in place."""
    torch._foreach_lerp_(m, g, 1 - ADAM.first)
    torch._foreach_mul_(v, ADAM.second)
    torch._foreach_addcmul_(v, g, g, 1 - ADAM.second)
    scales = torch._foreach_sqrt(v)
    torch._foreach_div_(scales, ADAM.second_correction**0.5)
    torch._foreach_add_(scales, ADAM.epsilon)
    torch._foreach_addcdiv_(p, m, scales, -ADAM.size)


@cache
def _fused() -> Callable[..., None]:
    """One kernel over all tensors, in place."""
    steps = [torch.tensor(float(ADAM.step)) for _ in range(TENSORS)]
    more: dict[str, Any] = {"lr": ADAM.rate, "beta1": ADAM.first, "beta2": ADAM.second, "eps": ADAM.epsilon}
    more |= {"amsgrad": False, "weight_decay": 0.0, "maximize": False}
    return lambda p, m, v, g: torch._fused_adam_(p, g, m, v, [], steps, **more)


@frozen(eq=False)
class Torch:
    """A device of PyTorch; `executor` where it is ours."""

    device: str
    compiler: str | None = None
    executor: Any = None
    adam: Any = _foreach
    only_adam: bool = False

    def compiled(self, function: Any) -> Any:
        return torch.compile(function, backend=self.compiler) if self.compiler else function

    def model(self, make: Callable[[], Any], trained: bool = False) -> Any:
        """A model, of the same random weights everywhere."""
        torch.manual_seed(0)
        return make().train(trained).to(self.device)

    def tensor(self, array: Array) -> Any:
        return torch.from_numpy(array).to(self.device)

    def read(self, result: Any) -> Array:
        """On the host, once it is computed."""
        return result.detach().cpu().float().numpy()

    def prepare(self, work: Work, inputs: Arrays) -> Job | None:
        torch.set_grad_enabled(False)
        if work.lists:
            return None if self.compiler else self._adam(inputs)
        if self.only_adam:
            return None
        fixed = as_it_is
        if self.compiler:
            torch.compiler.reset()  # what was compiled for other sizes would make it compile for all of them
            fixed = partial(torch.compile, backend=self.compiler, dynamic=False)
        if work.model is not None:
            scores, step = (partial(part, compiled=fixed, device=self.device) for part in (forward, trained))
            return model_job(work, inputs, scores, step, self.read, self._waited)
        if work.name not in (COMPILED if self.compiler else EAGER):
            return None
        tensors = list(map(self.tensor, inputs.values()))
        if self.compiler:
            assert work.function
            call = partial(fixed(partial(work.function, WORDS)), *tensors)
        else:
            call = EAGER[work.name](*tensors)
        return Job(self._waited(call), lambda: self._flat(call()))

    def _flat(self, result: Any) -> Array:
        return flat(map(self.read, result)) if isinstance(result, tuple) else np.array(self.read(result))

    def _adam(self, inputs: Arrays) -> Job:
        tensors = [[self.tensor(row.copy()) for row in rows] for rows in inputs.values()]
        write = lambda tensor, row: tensor.copy_(torch.from_numpy(row))  # noqa: E731
        return in_place(inputs, tensors, write, self.read, self._waited(partial(self.adam, *tensors)))

    def _waited(self, call: Call) -> Call:
        if self.executor is None and self.device == "cpu":
            return call
        wait = (
            torch.cuda.synchronize
            if self.executor is None
            else partial(hologram_torch.synchronize, self.device)
        )

        def called() -> Any:
            result = call()  # which enqueues
            wait()
            return result

        return called


def open_contender(name: str, where: str) -> Torch:
    """Who is named after hologram has our device at `where`; others the host, or the card of the suite cuda."""
    # A torchvision that was built for another PyTorch would be in transformers' way; no program asks for it.
    sys.modules.setdefault("torchvision", None)  # pyright: ignore[reportArgumentType]
    if threads := os.environ.get("BENCH_THREADS"):  # else as many as PyTorch takes by itself
        torch.set_num_threads(int(threads))
    if name == "torch fused":
        return Torch("cpu", adam=_fused(), only_adam=True)
    if not name.startswith("hologram"):
        device = "cuda" if where == "cuda" else "cpu"
        return Torch(device, "inductor" if name == "inductor" else None)
    backend, _, number = where.partition(":")
    hologram_torch.set_backend(backend)
    names = [place.name for place in torch_devices.devices.places]
    device = f"hologram:{names.index(where)}" if number else "hologram"
    return Torch(device, "hologram" if name.endswith("compiled") else None, hologram_torch.executor(device))
