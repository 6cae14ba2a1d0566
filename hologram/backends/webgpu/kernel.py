"""A kernel of the WebGPU backend: its variants, and binding one to memory as a launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hologram.atlas.program import Access, Program
from hologram.backends.webgpu.aliasing import merge, mixed_access, shared_parameters, widen
from hologram.backends.webgpu.encoder import Encoder
from hologram.backends.webgpu.intervals import Number
from hologram.backends.webgpu.memory import ALIGNMENT
from hologram.backends.webgpu.paging import pages
from hologram.backends.webgpu.pipeline import Pipeline, Pipelines, Signature
from hologram.backends.webgpu.spelling import Text
from hologram.device import Binding, Launch
from hologram.errors import CompileError, ShapeError
from hologram.limits import Limits
from hologram.opset.plan import Tile


@dataclass(frozen=True)
class Variant:
    """Compiled code of one form of a kernel."""

    pipeline: Pipeline
    text: Text


def _nothing() -> None:
    """The launch over an empty grid."""


class WebGPUKernel:
    """See hologram.device.Kernel. Variants for shared memory and for pages are compiled when first bound."""

    def __init__(self, kernel: Program | Tile, factory: Factory) -> None:
        self.kernel = kernel
        self.factory = factory
        self.name = kernel.name if isinstance(kernel, Program) else kernel.entry
        factory.variant(kernel)

    def bind(self, bindings: Sequence[Binding], scalars: Sequence[Number], grid: Sequence[int]) -> Launch:
        """A call that appends the kernel to the open compute pass; see hologram.device.Kernel."""
        kernel, limit = self.kernel, self.factory.limits.max_binding_bytes
        if len(bindings) != len(kernel.buffers):
            raise ShapeError(f"{self.name} takes {len(kernel.buffers)} buffers, got {len(bindings)}")
        if 0 in grid:
            return _nothing
        for b in bindings:
            if b.offset % ALIGNMENT or b.offset + b.nbytes > b.memory.size:
                raise ShapeError(
                    f"{self.name}: a binding must start at a multiple of {ALIGNMENT} and lie within its memory of "
                    f"{b.memory.size} bytes, got {b.nbytes} bytes at {b.offset}"
                )
        if isinstance(kernel, Tile):
            largest = max(b.nbytes for b in bindings)
            if largest > limit:
                raise ShapeError(
                    f"{self.name}: an operand has {largest} bytes, this adapter binds at most {limit} at once: run it "
                    "on parts of the data"
                )
            return self._launch(kernel, bindings, scalars, grid)
        kernel, bindings = _separate(kernel, bindings)
        if all(b.nbytes <= limit for b in bindings):
            return self._launch(kernel, bindings, scalars, grid)
        program, cut = pages(kernel, bindings, scalars, grid, limit)
        launches = [self._launch(program, page.bindings, page.scalars, page.grid) for page in cut]

        def launch() -> None:
            for page in launches:
                page()

        return launch

    def _launch(
        self,
        kernel: Program | Tile,
        bindings: Sequence[Binding],
        scalars: Sequence[Number],
        grid: Sequence[int],
    ) -> Launch:
        factory = self.factory
        with factory.encoder.lock:
            variant = factory.variant(kernel)
            groups = variant.text.groups(grid)
            if math.prod(groups) == 0:
                return _nothing
            parameters = variant.text.pack(scalars, grid)
            layout = variant.pipeline.layout
            padded = [Binding(b.memory, b.offset, _padded(b)) for b in bindings]
            uniform = factory.pipelines.uniform(parameters) if layout.signature.uniform else None
            group = factory.pipelines.group(layout, padded, uniform)
            size = layout.signature.immediate_bytes
            immediates = factory.encoder.ffi.new("char[]", parameters) if size else None
            owners = tuple(b.memory for b in bindings)
            return factory.encoder.launch(variant.pipeline.handle, group, immediates, size, groups, owners)


def _padded(binding: Binding) -> int:
    """The binding's size in whole vectors; memory is allocated in multiples that hold them."""
    return max(16, -(-binding.nbytes // 16) * 16)


def _separate(program: Program, bindings: Sequence[Binding]) -> tuple[Program, list[Binding]]:
    """The program in the form that may see these bindings: see aliasing."""
    shared = shared_parameters(program, bindings)
    kept = sorted(set(shared))
    if len(kept) < len(shared):
        program = merge(program, shared)
        sizes = [max(b.nbytes for b, s in zip(bindings, shared, strict=True) if s == k) for k in kept]
        bindings = [replace(bindings[k], nbytes=size) for k, size in zip(kept, sizes, strict=True)]
    return widen(program) if mixed_access(program, bindings) else program, list(bindings)


class Factory:
    """Compiles the variants of a device's kernels, each once; `spell` gives the text, with immediates or without."""

    def __init__(
        self,
        encoder: Encoder,
        pipelines: Pipelines,
        limits: Limits,
        max_immediate_bytes: int,
        spell: Callable[[Program | Tile, Limits, bool], Text],
    ) -> None:
        self.encoder = encoder
        self.pipelines = pipelines
        self.limits = limits
        self.max_immediate_bytes = max_immediate_bytes
        self.spell = spell
        self._variants: dict[Program | Tile, Variant] = {}

    def variant(self, kernel: Program | Tile) -> Variant:
        """The compiled kernel; raises CompileError or UnsupportedDType."""
        with self.encoder.lock:
            if kernel not in self._variants:
                self._variants[kernel] = self._compile(kernel)
            return self._variants[kernel]

    def _compile(self, kernel: Program | Tile) -> Variant:
        name = kernel.name if isinstance(kernel, Program) else kernel.entry
        count, most = len(kernel.buffers), self.limits.max_bindings
        if count > most:
            raise CompileError(name, f"it has {count} buffers, this adapter lets a kernel see {most}")
        text = self.spell(kernel, self.limits, self.max_immediate_bytes > 0)
        size = text.parameter_bytes
        immediates = size is not None and size <= self.max_immediate_bytes
        if not immediates and size is not None and self.max_immediate_bytes:
            text = self.spell(kernel, self.limits, False)
        if isinstance(kernel, Tile):
            writable = (True,) * count
        else:
            writable = tuple(b.access is not Access.READ for b in kernel.buffers)
        signature = Signature(
            writable, size if immediates and size else 0, uniform=not immediates and size != 0
        )
        return Variant(self.pipelines.compile(name, text.text, text.entry, signature), text)
