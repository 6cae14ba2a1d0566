"""PyTorch's fused optimiser on the CPU, in place: one kernel over all tensors."""

# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import os

import torch

from bench.contenders import Job
from bench.contenders.torch_adam import Tensors, job
from bench.work import ADAM, TENSORS, Arrays


class TorchFused:
    device = "cpu"

    def __init__(self) -> None:
        torch.set_num_threads(int(os.environ["BENCH_THREADS"]))
        torch.set_grad_enabled(False)
        self.steps = [torch.tensor(float(ADAM.step)) for _ in range(TENSORS)]

    def prepare(self, work: str, inputs: Arrays) -> Job | None:
        return job(self._step, inputs) if work == "adam" else None

    def _step(self, p: Tensors, g: Tensors, m: Tensors, v: Tensors) -> None:
        torch._fused_adam_(
            p,
            g,
            m,
            v,
            [],
            self.steps,
            amsgrad=False,
            lr=ADAM.rate,
            beta1=ADAM.first,
            beta2=ADAM.second,
            weight_decay=0.0,
            eps=ADAM.epsilon,
            maximize=False,
        )


def open_contender(backend: str) -> TorchFused:
    return TorchFused()
