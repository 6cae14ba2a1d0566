"""A kernel of the WebGPU backend: the forms it takes, and binding one to memory as a launch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hologram.atlas.program import Launchable, Program
from hologram.backends.webgpu.aliasing import mixed_access, shared_parameters, written_parameters
from hologram.backends.webgpu.encoder import Dispatch, Encoder, sequence
from hologram.backends.webgpu.paging import pages
from hologram.backends.webgpu.pipeline import Pipeline, Pipelines, Signature
from hologram.backends.webgpu.unfinished import Unfinished
from hologram.backends.webgpu.wgsl.dialect import wgsl
from hologram.compiled.text_kernel import TextKernel
from hologram.compiler.dialect import words
from hologram.compiler.lowering.paging import Cut
from hologram.compiler.passes import Goal, Stage
from hologram.compiler.pipeline import run
from hologram.compiler.source.codegen import Source
from hologram.compiler.source.generator import PLAIN, Variant, generator
from hologram.compiler.source.report import generated
from hologram.compiler.source.shader import Shader
from hologram.foundation.dtypes import Number
from hologram.foundation.errors import ShapeError
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding, Bindings, Launch, Scalars, nothing
from hologram.machine.limits import Limits

FOLDER = Path(__file__).parent  # all that decides the text


@frozen
class KernelContext:
    """What kernels of a device share."""

    encoder: Encoder
    pipelines: Pipelines
    limits: Limits
    max_immediate_bytes: int
    float_atomics: bool  # f32 in buffers can be added to in one instruction
    unfinished: Unfinished


@frozen
class Shape:
    """How the bindings of a launch change its program; see aliasing and paging."""

    shared: tuple[int, ...]  # for each parameter, the first one that is the same memory
    read_write: bool
    cut: Cut | None = None  # None: not paged


@frozen
class Compiled:
    """A form compiled for a variant of its launches."""

    pipeline: Pipeline
    source: Source | Shader


@frozen
class Bound:
    """A dispatch that nothing is bound to yet: what it sees of each memory, and which operands these are."""

    made: Compiled
    positions: tuple[int, ...]
    bindings: tuple[Binding, ...]
    scalars: tuple[Number, ...]
    groups: tuple[int, int, int]

    @property
    def dispatched(self) -> bool:
        """Whether there is anything to do."""
        return math.prod(self.groups) > 0


class Form:
    """A program or tile as it is compiled: once for each variant of its launches."""

    def __init__(self, kernel: Launchable, kernel_context: KernelContext, read_write: bool = False) -> None:
        self.kernel = kernel
        self.kernel_context = kernel_context
        limits = kernel_context.limits
        most = kernel_context.max_immediate_bytes
        self.immediates = isinstance(kernel, Program) and _words(kernel) * 4 <= most
        dialect = wgsl(
            limits.dtypes,
            limits.emulated_dtypes,
            immediates=self.immediates,
            read_write=read_write,
            float_atomics=kernel_context.float_atomics,
            shortfalls=frozenset(limits.shortfalls),
            hides_all=limits.reproducible,
        )
        self.generator = generator(kernel, dialect, limits, FOLDER)
        self._compiled: dict[Variant, Compiled] = {}

    def compiled(self, variant: Variant) -> Compiled:
        """Raises CompileError."""
        if variant not in self._compiled:
            source = self.generator.source(variant)
            generated(source.entry, "WGSL", lambda: source.text)
            size = source.parameter_bytes
            uniform = size > 0 and not self.immediates
            signature = Signature(source.writable, size if self.immediates else 0, uniform=uniform)
            pipeline = self.kernel_context.pipelines.compile(
                source.entry, source.text, source.entry, signature
            )
            self._compiled[variant] = Compiled(pipeline, source)
        return self._compiled[variant]

    def launch(self, bindings: Bindings, scalars: Scalars, grid: Sequence[int]) -> Launch:
        """A call that appends one dispatch."""
        kernel_context = self.kernel_context
        with kernel_context.encoder.lock:
            variant = self.generator.variant(grid, scalars)
            made = self.compiled(variant)
            groups = made.source.groups(grid, kernel_context.limits)
            if math.prod(groups) == 0:
                return nothing
            layout = made.pipeline.layout
            size = layout.signature.immediate_bytes
            parameters = made.source.pack(scalars, grid)
            if variant.watched:
                bindings = [*bindings, Binding(kernel_context.unfinished.memory(made.source.entry), 0, 16)]
            padded = [Binding(b.memory, b.offset, _padded(b)) for b in bindings]
            uniform = kernel_context.pipelines.uniform(parameters) if layout.signature.uniform else None
            group, offsets = kernel_context.pipelines.bound(layout, padded, uniform)
            immediates = kernel_context.encoder.ffi.new("char[]", parameters) if size else None
            owners = tuple(b.memory for b in bindings)
            dispatch = Dispatch(made.pipeline, group, offsets, immediates, size, *groups, owners)
            return kernel_context.encoder.launch([dispatch])


class WebGPUKernel(TextKernel):
    """See hologram.machine.device.Kernel. Forms for shared memory and for pages are compiled when first bound."""

    def __init__(self, kernel: Launchable, kernel_context: KernelContext) -> None:
        self.plain = Form(kernel, kernel_context)
        super().__init__(kernel, kernel_context.limits, self.plain.generator)
        self.kernel_context = kernel_context
        self._distinct = tuple(range(len(kernel.buffers)))
        self._forms: dict[Shape, Form] = {Shape(self._distinct, False): self.plain}
        if self.generator.only is not None:
            self.plain.compiled(self.generator.only)

    def launch(
        self, bindings: Bindings, scalars: Scalars, grid: Sequence[int], lengths: Sequence[int]
    ) -> Launch:
        """See TextKernel. Raises ShapeError also for what no adapter of these limits can see at once."""
        limit = self.kernel_context.limits.max_binding_bytes
        if self.kernel.stem:
            largest = max((b.nbytes for b in bindings), default=0)
            if largest > limit:
                raise ShapeError(
                    f"{self.name}: an operand has {largest} bytes, this adapter binds at most {limit} at once: run it "
                    "on parts of the data"
                )
            return self.plain.launch(bindings, scalars, grid)
        shared = shared_parameters(self.kernel, bindings)
        shape = Shape(shared, mixed_access(self.kernel, bindings, shared))
        bound = bindings if shared == self._distinct else _merged(bindings, shared)
        if all(b.nbytes <= limit for b in bound):
            return self._form(shape).launch(bound, scalars, grid)
        program = self._program(shape)
        cut, found = pages(program, bound, scalars, grid, limit)
        form = self._form(replace(shape, cut=cut))
        launches = [form.launch(page.bindings, page.scalars, page.grid) for page in found]
        return sequence(self.kernel_context.encoder, launches)

    def told(self, bindings: Bindings, scalars: Scalars, grid: Sequence[int]) -> Bound | None:
        """A launch on any memory that lies like this; None where it takes pages, or watches its loops."""
        checked = self.checked(bindings, scalars, grid)
        if checked is None:
            return Bound(self.plain.compiled(PLAIN), (), (), (), (0, 0, 0)) if not scalars else None
        bindings, scalars = checked
        if any(b.nbytes > self.kernel_context.limits.max_binding_bytes for b in bindings):
            return None
        form, bound = self.plain, list(bindings)
        positions = self._distinct
        if not self.kernel.stem:
            shared = written_parameters(self.kernel, bindings)
            form = self._form(Shape(shared, True))
            if shared != self._distinct:
                bound, positions = _merged(bindings, shared), tuple(sorted(set(shared)))
        with self.kernel_context.encoder.lock:
            variant = form.generator.variant(grid, scalars)
            if variant.watched:
                return None
            made = form.compiled(variant)
            groups = made.source.groups(grid, self.kernel_context.limits)
        padded = tuple([Binding(b.memory, b.offset, _padded(b)) for b in bound])
        return Bound(made, positions, padded, tuple(scalars), groups)

    def _program(self, shape: Shape) -> Program:
        assert self.kernel.program is not None
        return run(Stage.BINDING, self.kernel.program, Goal(shared=shape.shared, cut=shape.cut))

    def _form(self, shape: Shape) -> Form:
        with self.kernel_context.encoder.lock:
            if shape not in self._forms:
                self._forms[shape] = Form(self._program(shape), self.kernel_context, shape.read_write)
            return self._forms[shape]


def _words(program: Program) -> int:
    """How many words of 32 bits a launch passes: the extents, then the scalars."""
    return program.rank + sum(words(s.dtype) for s in program.scalars)


def _merged(bindings: Sequence[Binding], shared: Sequence[int]) -> list[Binding]:
    """One binding for each parameter that is left."""
    sizes: dict[int, int] = {}
    for binding, first in zip(bindings, shared, strict=True):
        sizes[first] = max(sizes.get(first, 0), binding.nbytes)
    return [replace(bindings[first], nbytes=sizes[first]) for first in sorted(sizes)]


def _padded(binding: Binding) -> int:
    """The binding's size in whole vectors; memory is allocated in multiples that hold them."""
    return max(16, -(-binding.nbytes // 16) * 16)
