"""PyTorch on the CPU, or on the card of the cuda suite: its own kernels, with out= where they have it, no autograd."""

# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import torch

from bench import training
from bench.contenders import Job, model_job
from bench.contenders.torch_adam import Tensors, job
from bench.work import ADAM, Arrays
from hologram.benchmark.models import with_torch


def _chain(inputs: Arrays) -> Job:
    a, b = (torch.from_numpy(array) for array in inputs.values())
    gate, out, grown = torch.empty_like(a), torch.empty_like(a), torch.empty_like(a)

    def chain() -> None:
        torch.mul(a, b, out=gate)
        torch.add(gate, a, out=gate)
        torch.sigmoid(gate, out=gate)
        torch.tanh(b, out=out)
        torch.mul(out, gate, out=out)
        torch.exp(a, out=grown)
        torch.add(out, grown, out=out)

    return Job(chain, lambda: np.array(out))


def _mlp(inputs: Arrays) -> Job:
    x, w1, b1, w2, b2 = (torch.from_numpy(array) for array in inputs.values())
    hidden, out = torch.empty(len(x), len(b1)), torch.empty(len(x), len(b2))

    def mlp() -> None:
        torch.addmm(b1, x, w1, out=hidden)
        torch._C._nn.gelu(hidden, out=hidden)
        torch.addmm(b2, hidden, w2, out=out)

    return Job(mlp, lambda: np.array(out))


def _foreach(p: Tensors, g: Tensors, m: Tensors, v: Tensors) -> None:
    """What torch.optim.Adam(foreach=True) does, in place."""
    torch._foreach_lerp_(m, g, 1 - ADAM.first)
    torch._foreach_mul_(v, ADAM.second)
    torch._foreach_addcmul_(v, g, g, 1 - ADAM.second)
    scales = torch._foreach_sqrt(v)
    torch._foreach_div_(scales, ADAM.second_correction**0.5)
    torch._foreach_add_(scales, ADAM.epsilon)
    torch._foreach_addcdiv_(p, m, scales, -ADAM.size)


def _training_step(inputs: Arrays) -> Job:
    x, y, w1, b1, w2, b2 = (torch.from_numpy(array) for array in inputs.values())

    def step() -> tuple[torch.Tensor, ...]:
        hidden = torch.relu(torch.addmm(b1, x, w1))
        d = (torch.softmax(torch.addmm(b2, hidden, w2), dim=1) - y) * (1 / len(x))
        below = (d @ w2.T) * (hidden > 0)
        rate = training.RATE
        return (
            torch.addmm(w1, x.T, below, alpha=-rate),
            torch.sub(b1, below.sum(dim=0), alpha=rate),
            torch.addmm(w2, hidden.T, d, alpha=-rate),
            torch.sub(b2, d.sum(dim=0), alpha=rate),
        )

    return Job(step, lambda: training.flat(step()))


FUNCTIONS: dict[str, Callable[[Arrays], Job]] = {
    "chain": _chain,
    "mlp": _mlp,
    "adam": lambda inputs: job(_foreach, inputs),
    "training_step": _training_step,
}


class Torch:
    def __init__(self, device: str) -> None:
        self.device = torch.cuda.get_device_name() if device == "cuda" else device
        self._place = torch.device(device)
        torch.set_num_threads(int(os.environ["BENCH_THREADS"]))
        torch.set_grad_enabled(False)

    def prepare(self, work: str, inputs: Arrays) -> Job | None:
        if self._place.type == "cpu":
            return self._prepare(work, inputs)
        job = None if work in FUNCTIONS else self._prepare(work, inputs)
        if job is None:
            return None
        call = job.call  # which enqueues
        return Job(lambda: (call(), torch.cuda.synchronize()), job.result)

    def _prepare(self, work: str, inputs: Arrays) -> Job | None:
        if work in FUNCTIONS:
            return FUNCTIONS[work](inputs)
        model = model_job(work, inputs, with_torch.forward, with_torch.trained)
        if model is not None:
            return model
        tensors = {name: torch.from_numpy(array).to(self._place) for name, array in inputs.items()}
        first = next(iter(tensors.values()))
        out = torch.empty(() if work == "sum" else first.shape, device=self._place)
        aten = torch.ops.aten
        if work == "layer_norm":  # the functional form has no out=
            x, weight, bias = tensors["x"], tensors["weight"], tensors["bias"]
            mean, rstd = (torch.empty(len(x), 1, device=self._place) for _ in range(2))
            norm, shape = aten.native_layer_norm.out, [x.shape[-1]]

            def layer_norm() -> object:
                return norm(x, shape, weight, bias, 1e-5, out0=out, out1=mean, out2=rstd)

            return Job(layer_norm, lambda: np.array(out.cpu()))
        if work in ("add", "mul", "matmul"):
            a, b = tensors.values()
            two = {"add": torch.add, "mul": torch.mul, "matmul": torch.mm}[work]
            return Job(lambda: two(a, b, out=out), lambda: np.array(out.cpu()))
        gelu = torch._C._nn.gelu  # torch.nn.functional.gelu is this one and does not say that it takes out=
        one = {
            "relu": lambda: torch.clamp_min(first, 0, out=out),  # torch.relu takes no out=
            "exp": lambda: torch.exp(first, out=out),
            "tanh": lambda: torch.tanh(first, out=out),
            "gelu": lambda: gelu(first, out=out),
            "sum": lambda: torch.sum(first, dim=0, out=out),
            "softmax": lambda: torch.softmax(first, -1, out=out),
        }.get(work)
        if one is None:
            return None
        return Job(one, lambda: np.array(out.cpu()))


def open_contender(backend: str) -> Torch:
    return Torch("cuda" if backend == "cuda" else "cpu")
