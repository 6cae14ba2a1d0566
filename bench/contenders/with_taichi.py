"""Taichi, its vulkan arch or the CPU's: a kernel per work over ndarrays, waited for with ti.sync()."""

# pyright: reportMissingImports=false, reportOptionalMemberAccess=false

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import taichi as ti

from bench.contenders import taichi_gallery
from bench.contenders import taichi_kernels as kernels
from hologram.benchmark.functions import HEADS, HIDDEN
from hologram.benchmark.jobs import Job, in_place
from hologram.benchmark.models.declared import Arrays
from hologram.benchmark.works import Work

LANES = 1024  # partial sums of a whole-array sum; every size is a multiple


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


@dataclass(frozen=True)
class Taichi:
    device: str

    def prepare(self, work: Work, inputs: Arrays) -> Job | None:
        if work.name in taichi_gallery.MAKERS:
            call, result = taichi_gallery.MAKERS[work.name](*inputs.values())
            return Job(lambda: (call(), ti.sync()), result)
        if work.lists:
            return self._adam(inputs)
        form = FORMS.get(work.name)
        if form is None:
            return None
        arguments = [_array(values) for values in inputs.values()]
        arguments += [ti.ndarray(ti.f32, shape) for shape in form.scratch(inputs)]
        out = ti.ndarray(ti.f32, form.out(inputs))
        kernel = form.kernel

        def call() -> None:
            kernel(*arguments, out)
            ti.sync()

        return Job(call, lambda: out.to_numpy()[0] if work.reduced else out.to_numpy())

    def _adam(self, inputs: Arrays) -> Job:
        """In place, a launch a tensor: a kernel takes no list of arrays."""
        state = [list(map(_array, rows)) for rows in inputs.values()]

        def call() -> None:
            for tensors in zip(*state, strict=True):
                kernels.adam(*tensors)
            ti.sync()

        return in_place(inputs, state, lambda array, row: array.from_numpy(row), lambda a: a.to_numpy(), call)


def open_contender(name: str, where: str) -> Taichi:
    """Its vulkan arch, or that of the CPU where the name ends in `cpu`."""
    arch = ti.cpu if name.endswith("cpu") else ti.vulkan
    threads = int(os.environ.get("BENCH_THREADS", os.cpu_count() or 1))
    ti.init(arch=arch, log_level=ti.WARN, offline_cache=False, cpu_max_num_threads=threads)
    if ti.lang.impl.current_cfg().arch not in (ti.vulkan, ti.x64, ti.arm64):
        raise ImportError("Taichi finds no Vulkan device")
    return Taichi(arch.name)
