"""An Adam step on torch's tensors, in place, whichever way it is taken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from bench.contenders import Job
from bench.work import Arrays

Tensors = list[torch.Tensor]
Step = Callable[[Tensors, Tensors, Tensors, Tensors], object]  # of parameters, gradients and both means


def job(step: Step, inputs: Arrays) -> Job:
    """Steps on and on; the result is that of one step from the beginning."""
    p, g, m, v = ([torch.from_numpy(row.copy()) for row in inputs[name]] for name in ("p", "g", "m", "v"))

    def result() -> np.ndarray:
        for name, tensors in (("p", p), ("m", m), ("v", v)):
            for tensor, row in zip(tensors, inputs[name], strict=True):
                tensor.copy_(torch.from_numpy(row))
        step(p, g, m, v)
        return np.array([torch.stack(tensors).numpy() for tensors in (p, m, v)])

    return Job(lambda: step(p, g, m, v), result)
