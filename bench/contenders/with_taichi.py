"""Taichi's vulkan arch: a kernel per work over ndarrays, waited for with ti.sync()."""

# pyright: reportMissingImports=false, reportOptionalMemberAccess=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import taichi as ti

from bench.contenders import Job
from bench.contenders import taichi_kernels as kernels
from bench.work import HEADS, HIDDEN, Arrays

LANES = 1024  # partial sums of a whole-array sum; every size is a multiple

ti.init(arch=ti.vulkan, log_level=ti.WARN, offline_cache=False)
if ti.lang.impl.current_cfg().arch != ti.vulkan:
    raise ImportError("Taichi finds no Vulkan device")


def _array(values):
    array = ti.ndarray(ti.f32, values.shape)
    array.from_numpy(np.ascontiguousarray(values))
    return array


@dataclass(frozen=True)
class Form:
    """A kernel; it takes the inputs, scratch memory, and the output last."""

    kernel: Any
    out: Callable[[Arrays], tuple[int, ...]] = lambda inputs: next(iter(inputs.values())).shape
    scratch: Callable[[Arrays], tuple[tuple[int, ...], ...]] = lambda inputs: ()


FORMS = {
    "add": Form(kernels.add),
    "exp": Form(kernels.exp),
    "sum": Form(kernels.total, lambda i: (1,), lambda i: ((min(LANES, i["x"].size // 16),),)),
    "softmax": Form(kernels.softmax),
    "matmul": Form(kernels.matmul),
    "chain": Form(kernels.chain),
    "layer_norm": Form(kernels.layer_norm),
    "mlp": Form(kernels.mlp, scratch=lambda i: ((len(i["x"]), HIDDEN),)),
    "attention": Form(kernels.attention, scratch=lambda i: ((HEADS, i["q"].shape[1], i["k"].shape[1]),)),
}


class Taichi:
    device = "vulkan"

    def prepare(self, work: str, inputs: Arrays) -> Job | None:
        if work == "adam":
            return self._adam(inputs)
        form = FORMS.get(work)
        if form is None:
            return None
        arguments = [_array(values) for values in inputs.values()]
        arguments += [ti.ndarray(ti.f32, shape) for shape in form.scratch(inputs)]
        out = ti.ndarray(ti.f32, form.out(inputs))
        kernel = form.kernel

        def call() -> None:
            kernel(*arguments, out)
            ti.sync()

        return Job(call, lambda: out.to_numpy()[0] if work == "sum" else out.to_numpy())

    def _adam(self, inputs: Arrays) -> Job:
        """In place, a launch a tensor: a kernel takes no list of arrays."""
        state = [tuple(map(_array, rows)) for rows in zip(*(inputs[n] for n in "pgmv"), strict=True)]

        def call() -> None:
            for tensors in state:
                kernels.adam(*tensors)
            ti.sync()

        def result() -> np.ndarray:
            for k, (p, _, m, v) in enumerate(state):
                for tensor, name in ((p, "p"), (m, "m"), (v, "v")):
                    tensor.from_numpy(inputs[name][k])
            call()
            found = [[tensors[k].to_numpy() for tensors in state] for k in (0, 2, 3)]
            return np.array(found)

        return Job(call, result)


def open_contender(backend: str) -> Taichi:
    return Taichi()
