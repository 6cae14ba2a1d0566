"""Taichi's vulkan arch: a kernel per work over ndarrays, waited for with ti.sync()."""

# pyright: reportMissingImports=false, reportGeneralTypeIssues=false, reportInvalidTypeForm=false
# pyright: reportOptionalMemberAccess=false

# Annotations are read by Taichi when a kernel is made: they must not become strings.
import numpy as np
import taichi as ti

from bench.contenders import Job
from bench.work import Arrays

LANES = 1024  # partial sums of a whole-array sum; every size is a multiple

ti.init(arch=ti.vulkan, log_level=ti.WARN, offline_cache=False)
if ti.lang.impl.current_cfg().arch != ti.vulkan:
    raise ImportError("Taichi finds no Vulkan device")
Vector = ti.types.ndarray(dtype=ti.f32, ndim=1)
Matrix = ti.types.ndarray(dtype=ti.f32, ndim=2)


@ti.kernel
def add(x: Vector, y: Vector, out: Vector):
    for i in out:
        out[i] = x[i] + y[i]


@ti.kernel
def exp(x: Vector, out: Vector):
    for i in out:
        out[i] = ti.exp(x[i])


@ti.kernel
def total(x: Vector, partial: Vector, out: Vector):
    for lane in partial:
        found = 0.0
        for step in range(x.shape[0] // partial.shape[0]):
            found += x[step * partial.shape[0] + lane]
        partial[lane] = found
    for _ in range(1):
        found = 0.0
        for lane in range(partial.shape[0]):
            found += partial[lane]
        out[0] = found


@ti.kernel
def softmax(x: Matrix, out: Matrix):
    for row in range(x.shape[0]):
        top = x[row, 0]
        for k in range(x.shape[1]):
            top = ti.max(top, x[row, k])
        found = 0.0
        for k in range(x.shape[1]):
            e = ti.exp(x[row, k] - top)
            out[row, k] = e
            found += e
        for k in range(x.shape[1]):
            out[row, k] /= found


@ti.kernel
def matmul(a: Matrix, b: Matrix, out: Matrix):
    for i, j in out:
        found = 0.0
        for k in range(a.shape[1]):
            found += a[i, k] * b[k, j]
        out[i, j] = found


def _array(values):
    array = ti.ndarray(ti.f32, values.shape)
    array.from_numpy(np.ascontiguousarray(values))
    return array


class Taichi:
    device = "vulkan"

    def prepare(self, work: str, inputs: Arrays) -> "Job | None":
        kernels = {"add": add, "exp": exp, "sum": total, "softmax": softmax, "matmul": matmul}
        kernel = kernels.get(work)
        if kernel is None:
            return None
        arguments = [_array(values) for values in inputs.values()]
        first = next(iter(inputs.values()))
        out = ti.ndarray(ti.f32, (1,) if work == "sum" else first.shape)
        if work == "sum":
            arguments.append(ti.ndarray(ti.f32, (min(LANES, first.size // 16),)))

        def call() -> None:
            kernel(*arguments, out)
            ti.sync()

        return Job(call, lambda: out.to_numpy()[0] if work == "sum" else out.to_numpy())


def open_contender(suite: str) -> Taichi:
    return Taichi()
