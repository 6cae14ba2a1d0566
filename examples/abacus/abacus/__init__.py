"""A backend in one folder, for an example: host memory, and Atlas' evaluator in place of a compiler and a driver.

CONTRIBUTING.md goes through it step by step, and tests/backends/test_third_party.py runs operations on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hologram.atlas.evaluate import evaluate
from hologram.atlas.program import Launchable, Program
from hologram.atlas.text import format_program
from hologram.compiled.device import CompilingDevice
from hologram.foundation import dtypes
from hologram.foundation.errors import BackendUnavailable, CompileError
from hologram.machine.backend_module import Probe
from hologram.machine.device import DeviceInfo
from hologram.machine.kernel import Binding, Kernel, Launch
from hologram.machine.limits import Limits

NAME = "abacus"
PREFERENCE = 110  # behind the CPU: nobody wants it unasked
LIMITS = Limits(
    dtypes=frozenset(dtypes.ALL),
    max_buffer_bytes=1 << 32,
    max_binding_bytes=1 << 32,
    max_bindings=64,
    max_workgroups=65_535,
    max_workgroup_threads=256,
    shared_bytes=16 << 10,
    subgroup=1,
    unified_memory=True,
    parallelism=1,
    software=False,
    serial_workgroups=True,
    tile_dtypes=frozenset(),  # it has no hand-written kernels
)
INFO = DeviceInfo(NAME, 0, "beads on wires", "Atlas' evaluator", LIMITS)


@dataclass(frozen=True)
class Evaluated(Kernel):
    """A kernel; see hologram.machine.device.Kernel."""

    program: Program

    def bind(
        self, bindings: Sequence[Binding], scalars: Sequence[int | float | bool], grid: Sequence[int]
    ) -> Launch:
        sizes, numbers, arrays = tuple(grid), {}, {}
        for parameter, number in zip(self.program.scalars, scalars, strict=True):
            numbers[parameter.name] = number
        for parameter, b in zip(self.program.buffers, bindings, strict=True):
            whole = b.nbytes // parameter.dtype.itemsize * parameter.dtype.itemsize
            arrays[parameter.name] = b.memory[b.offset : b.offset + whole].view(parameter.dtype.numpy)
        return lambda: evaluate(self.program, arrays, numbers, sizes)

    def source(self, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()) -> str:
        return format_program(self.program)


class Abacus(CompilingDevice[Evaluated]):
    """An open device; what it does not say it does as hologram.machine.device.Device does."""

    def allocate(self, nbytes: int) -> np.ndarray:
        return np.empty(nbytes, np.uint8)

    def write(self, memory: np.ndarray, offset: int, data: memoryview) -> None:
        memory[offset : offset + data.nbytes] = np.frombuffer(data, np.uint8)

    def read(self, memory: np.ndarray, offset: int, out: memoryview) -> None:
        np.frombuffer(out, np.uint8)[:] = memory[offset : offset + out.nbytes]

    def make(self, kernel: Launchable) -> Evaluated:
        return _evaluated(kernel)


def _evaluated(kernel: Launchable) -> Evaluated:
    if not isinstance(kernel, Program):
        raise CompileError(kernel.name, f"{NAME} has no hand-written kernels, and its limits say so")
    return Evaluated(kernel)


def probe() -> Probe:
    return Probe(NAME, (INFO,))


def open_device(index: int) -> Abacus:
    if index != 0:
        raise BackendUnavailable(f"{NAME}: there is one device, number 0, got {index}")
    return Abacus(INFO)


def reference_limits() -> Limits:
    return LIMITS


def source(kernel: Launchable, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()) -> str:
    return _evaluated(kernel).source(grid, scalars)
