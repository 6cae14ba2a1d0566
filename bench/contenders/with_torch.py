"""PyTorch on the CPU: its own kernels, with out= where they have it, without autograd."""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import os

import numpy as np
import torch

from bench.contenders import Job
from bench.work import Arrays


class Torch:
    device = "cpu"

    def __init__(self) -> None:
        torch.set_num_threads(int(os.environ["BENCH_THREADS"]))
        torch.set_grad_enabled(False)

    def prepare(self, work: str, inputs: Arrays) -> Job:
        tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
        first = next(iter(tensors.values()))
        out = torch.empty(() if work == "sum" else first.shape)
        aten = torch.ops.aten
        if work == "layer_norm":  # the functional form has no out=
            x, weight, bias = tensors["x"], tensors["weight"], tensors["bias"]
            mean, rstd = torch.empty(len(x), 1), torch.empty(len(x), 1)
            norm, shape = aten.native_layer_norm.out, [x.shape[-1]]

            def layer_norm() -> object:
                return norm(x, shape, weight, bias, 1e-5, out0=out, out1=mean, out2=rstd)

            return Job(layer_norm, lambda: np.array(out))
        if work in ("add", "mul", "matmul"):
            a, b = tensors.values()
            two = {"add": torch.add, "mul": torch.mul, "matmul": torch.mm}[work]
            return Job(lambda: two(a, b, out=out), lambda: np.array(out))
        gelu = torch._C._nn.gelu  # torch.nn.functional.gelu is this one and does not say that it takes out=
        one = {
            "relu": lambda: torch.clamp_min(first, 0, out=out),  # torch.relu takes no out=
            "exp": lambda: torch.exp(first, out=out),
            "tanh": lambda: torch.tanh(first, out=out),
            "gelu": lambda: gelu(first, out=out),
            "sum": lambda: torch.sum(first, dim=0, out=out),
            "softmax": lambda: torch.softmax(first, -1, out=out),
        }[work]
        return Job(one, lambda: np.array(out))


def open_contender(suite: str) -> Torch:
    return Torch()
