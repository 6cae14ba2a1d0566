"""The CPU as a device: its memory is host memory, and a launch has run when its call returns."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.atlas.program import Launchable, Program
from hologram.backends.cpu.memory import Memory, allocate
from hologram.compiled import byte_programs
from hologram.compiled.device import CompilingDevice
from hologram.foundation import dtypes, lazy
from hologram.foundation.config import config
from hologram.foundation.errors import CompileError
from hologram.machine.device import DeviceInfo
from hologram.machine.kernel import Binding, Call, Draft, Kernel, Places, Prepared, Repetition
from hologram.machine.limits import STREAMED_BYTES, Limits
from hologram.machine.plan import (
    ATTENTION_FEW,
    BY_LU,
    FACTORS,
    FOURIER,
    FOURIER_HALVES,
    ORDER,
    PACKED_EXPERTS,
    PACKED_PRODUCT,
    PACKED_WEIGHTS,
    Tile,
)
from hologram.machine.timeline import Clock, HostTimeline, Timeline

if TYPE_CHECKING:
    from hologram.backends.cpu import interpret, preparing, workers
    from hologram.backends.cpu import kernel as compiled
    from hologram.backends.cpu.attending import kernel as attending
    from hologram.backends.cpu.fourier import kernel as transforming
    from hologram.backends.cpu.linear_algebra import kernel as factoring
    from hologram.backends.cpu.packed import kernel as packed
    from hologram.backends.cpu.products import tiles
    from hologram.backends.cpu.sorting import kernel as ordering
    from hologram.compiled.machine_code import engine
else:  # needed to launch, not to open
    engine = lazy.module("hologram.compiled.machine_code.engine")
    interpret = lazy.module("hologram.backends.cpu.interpret")
    preparing = lazy.module("hologram.backends.cpu.preparing")
    workers = lazy.module("hologram.backends.cpu.workers")
    attending = lazy.module("hologram.backends.cpu.attending.kernel")
    transforming = lazy.module("hologram.backends.cpu.fourier.kernel")
    factoring = lazy.module("hologram.backends.cpu.linear_algebra.kernel")
    packed = lazy.module("hologram.backends.cpu.packed.kernel")
    tiles = lazy.module("hologram.backends.cpu.products.tiles")
    compiled = lazy.module("hologram.backends.cpu.kernel")
    ordering = lazy.module("hologram.backends.cpu.sorting.kernel")


NAME = "cpu"


def thread_count() -> int:
    """Threads a launch may use: HOLOGRAM_CPU_THREADS, or the cores this process may run on."""
    asked = config.cpu_threads
    if asked:
        return asked
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def factors() -> tuple[str, ...]:
    """What the host's libraries do with matrices: NumPy has no LU factors by themselves, which are programs then."""
    return FACTORS if importlib.util.find_spec("scipy") else tuple(n for n in FACTORS if n not in BY_LU)


# By the bits of integers of x, up to how many of its rows packed weights are read as they lie, not as floats by BLAS.
PACKED_ROWS = {16: 128, 8: 1 << 20}


@functools.lru_cache(maxsize=1)
def describe() -> DeviceInfo:
    """What this CPU is."""
    limits = Limits(
        dtypes=frozenset(dtypes.ALL),
        max_buffer_bytes=2**62,
        max_binding_bytes=2**62,
        max_bindings=1024,
        max_workgroups=2**62,
        max_workgroup_threads=1024,
        shared_bytes=256 << 10,
        subgroup=1,
        unified_memory=True,
        parallelism=thread_count(),
        software=False,
        host_resident=True,
        splits_rows=True,
        cheap_launches=True,
        own_products=True,
        own_orders=True,
        own_transforms=True,
        own_attention=True,
        own_packed=True,
        factors=factors(),
        packed_rows=PACKED_ROWS[config.cpu_activation_bits],
        serial_workgroups=True,
        binding_alignment=1,
        tile_dtypes=frozenset({dtypes.f32, dtypes.f64}),
        panel_dtypes=frozenset({dtypes.f16, dtypes.bf16}),
    )
    return DeviceInfo(NAME, 0, _model(), "LLVM", limits)


def _model() -> str:
    """The processor's name where Linux tells it, else the architecture's."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = file.read(4096).splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


@functools.lru_cache(maxsize=1)
def has_compiler() -> bool:
    """Whether there is a compiler for this CPU; says so once if not."""
    try:
        problem = engine.shared_engine().problem
    except ImportError:
        problem = "llvmlite is not installed (pip install llvmlite)"
    if problem:
        warnings.warn(f"cpu: {problem}: programs are interpreted, far slower", RuntimeWarning, stacklevel=2)
    return not problem


# Hand-written kernels, by stem.
KERNELS: Mapping[str, Callable[[Tile, Callable[[Program], Kernel], compiled.Host | None], Kernel]] = {
    ORDER: lambda tile, compile_program, host: ordering.OrderKernel(tile, host),
    FOURIER: lambda tile, compile_program, host: transforming.FourierKernel(tile, host),
    FOURIER_HALVES: lambda tile, compile_program, host: transforming.HalvesKernel(tile, host),
    ATTENTION_FEW: lambda tile, compile_program, host: attending.FewKernel(tile, host),
    PACKED_PRODUCT: lambda tile, compile_program, host: packed.ProductKernel(tile, host),
    PACKED_EXPERTS: lambda tile, compile_program, host: packed.ExpertsKernel(tile, host),
    PACKED_WEIGHTS: lambda tile, compile_program, host: packed.WeightsKernel(tile, host),
    **dict.fromkeys(FACTORS, lambda tile, compile_program, host: factoring.FactorKernel(tile, host)),
    **dict.fromkeys(
        ("matmul", "matmul_register", "matmul_subgroup"), lambda *given: tiles.ProductTile(*given)
    ),
    **dict.fromkeys(("conv2d", "conv2d_weight"), lambda *given: tiles.ConvolutionTile(*given)),
}


class CpuDevice(CompilingDevice[Kernel]):
    """An open CPU; several may be open, they share the worker threads."""

    def __init__(self) -> None:
        super().__init__(describe())
        self.streamed_bytes = STREAMED_BYTES  # from so many on, all threads copy, past the caches
        self._interprets = "llvm" in config.cpu_without

    def allocate(self, nbytes: int) -> Memory:
        return allocate(nbytes)

    def adopt(self, data: memoryview) -> Memory:
        """Memory over bytes of the host that somebody else owns, aligned to their elements; kept alive by it."""
        block = np.frombuffer(data, np.uint8)
        return Memory(block, block.ctypes.data, block.size)

    def write(self, memory: Memory, offset: int, data: memoryview) -> None:
        source = np.frombuffer(data, np.uint8)
        self._move(source, memory.bytes[offset : offset + source.size])

    def read(self, memory: Memory, offset: int, out: memoryview) -> None:
        target = np.frombuffer(out, np.uint8)
        self._move(memory.bytes[offset : offset + target.size], target)

    def copy(
        self, source: Memory, source_offset: int, target: Memory, target_offset: int, nbytes: int
    ) -> None:
        self._move(
            source.bytes[source_offset : source_offset + nbytes],
            target.bytes[target_offset : target_offset + nbytes],
        )

    def _move(self, source: np.ndarray, target: np.ndarray) -> None:
        """Copies bytes; large ranges that lie apart by all threads, past the caches."""
        whole = target.size // max(byte_programs.WORDS) * max(byte_programs.WORDS)
        if whole < self.streamed_bytes or np.may_share_memory(source, target) or self.compiler is None:
            target[:] = source
            return
        spans = [Memory(a, a.ctypes.data, whole) for a in (source, target)]
        size = byte_programs.word(*(span.address for span in spans))
        bindings = [Binding(span, 0, whole) for span in spans]
        self.compile(byte_programs.copy_program(size)).bind(bindings, (0, 0), (whole // size,))()
        target[whole:] = source[whole:]

    def fill(self, memory: Memory, offset: int, nbytes: int, pattern: bytes) -> None:
        unit = byte_programs.WORDS[len(pattern)]
        value = np.frombuffer(pattern, unit.numpy)[0]
        if nbytes < self.streamed_bytes or self.compiler is None:
            memory.bytes[offset : offset + nbytes].view(unit.numpy)[:] = value
            return
        bindings = [Binding(memory, offset, nbytes)]
        fill = self.compile(byte_programs.fill_program(len(pattern)))
        fill.bind(bindings, (0, int(value)), (nbytes // len(pattern),))()

    def host_view(self, memory: Memory, offset: int, nbytes: int) -> memoryview:
        return memory.bytes[offset : offset + nbytes].data

    def make(self, kernel: Launchable) -> Kernel:
        if isinstance(kernel, Program):
            return (
                interpret.InterpretedKernel(kernel)
                if self.compiler is None
                else compiled.ProgramKernel(kernel, self.compiler)
            )
        assert isinstance(kernel, Tile)
        if kernel.stem not in KERNELS:
            known = ", ".join(sorted(KERNELS))
            raise CompileError(kernel.name, f"the CPU has no kernel named {kernel.stem}; it has {known}")
        return KERNELS[kernel.stem](kernel, self.compile, self.compiler)

    @property
    def hand_written(self) -> Collection[str]:
        return KERNELS

    @functools.cached_property
    def compiler(self) -> compiled.Host | None:
        """`host`, where programs are compiled; None where they are interpreted."""
        return self.host if not self._interprets and has_compiler() else None

    @functools.cached_property
    def host(self) -> compiled.Host:
        """The compiler, and the threads that compiled kernels run on."""
        threads = thread_count()
        return compiled.Host(
            engine.shared_engine, lambda: workers.shared_pool(engine.shared_engine, threads), threads
        )

    def timeline(self) -> Timeline:
        """The host's clock is the device's, and a mark has nothing to wait for."""
        return HostTimeline(Clock.CALL, self.synchronize)

    @property
    def told(self) -> frozenset[dtypes.DType]:  # type: ignore[override]
        return frozenset() if self.compiler is None else frozenset({dtypes.f32, dtypes.f64})

    def place(self, memory: Memory) -> int:
        return memory.address

    def prepare(self, calls: Sequence[Call], arguments: Sequence[Any], places: Places) -> Prepared:
        """See hologram.machine.device.Device: neighbours that are compiled code become one call of it."""
        return preparing.prepared(calls, arguments, self.compiler)

    def repeat(self, calls: Sequence[Call], arguments: Sequence[Any], again: Repetition) -> Prepared | None:
        return preparing.repeated(calls, arguments, self.compiler, again)

    def draft(self, calls: Sequence[Call], arguments: Sequence[Any]) -> Draft | None:
        return preparing.drafted(calls, arguments, self.compiler)
