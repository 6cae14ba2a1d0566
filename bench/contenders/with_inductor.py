"""torch.compile (Inductor) on the CPU: functions compiled to C++ for their shapes, without autograd."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from bench.contenders import Job, model_job
from bench.work import Arrays
from hologram.benchmark.models import with_torch

FUNCTIONS: dict[str, Any] = {
    "chain": lambda a, b: torch.sigmoid(a * b + a) * torch.tanh(b) + torch.exp(a),
    "softmax": lambda x: torch.softmax(x, -1),
    "layer_norm": lambda x, weight, bias: functional.layer_norm(x, (x.shape[-1],), weight, bias, 1e-5),
    "mlp": lambda x, w1, b1, w2, b2: torch.addmm(b2, functional.gelu(torch.addmm(b1, x, w1)), w2),
}


class Inductor:
    device = "cpu"

    def __init__(self) -> None:
        torch.set_num_threads(int(os.environ["BENCH_THREADS"]))
        torch.set_grad_enabled(False)

    def prepare(self, work: str, inputs: Arrays) -> Job | None:
        torch.compiler.reset()  # what was compiled for other sizes would make it compile for all of them
        function = FUNCTIONS.get(work)
        if function is None:
            compiled = functools.partial(torch.compile, dynamic=False)
            forward = functools.partial(with_torch.forward, compiled=compiled)
            return model_job(work, inputs, forward, functools.partial(with_torch.trained, compiled=compiled))
        arguments = [torch.from_numpy(array) for array in inputs.values()]
        compiled = torch.compile(function, dynamic=False)
        compiled(*arguments)
        return Job(lambda: compiled(*arguments), lambda: np.array(compiled(*arguments)))


def open_contender(backend: str) -> Inductor:
    return Inductor()
