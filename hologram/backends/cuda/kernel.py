"""A kernel of the CUDA backend: compiled once for each variant of its launches, and bound to memory as a launch.

A launch is one call of the driver, whose arguments are made when it is bound: the kernel, the grid, and the array of
pointers to its parameters (see docs/design/native.md).
"""

from __future__ import annotations

import ctypes
import functools
import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hologram.atlas.program import Launchable
from hologram.backends.cuda.compiler import Compiler, kept
from hologram.backends.cuda.context import Context
from hologram.backends.cuda.dialect import cuda
from hologram.backends.cuda.launches import tensor_maps
from hologram.compiled.text_kernel import TextKernel
from hologram.compiler.scheduling.schedule import most_lanes
from hologram.compiler.source.codegen import Source
from hologram.compiler.source.generator import Generator, Variant, generator
from hologram.compiler.source.report import generated
from hologram.compiler.source.shader import Shader
from hologram.foundation.errors import CompileError, HologramError
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Bindings, Launch, Scalars, nothing
from hologram.machine.limits import Limits
from hologram.machine.plan import TensorMap

FOLDER = Path(__file__).parent  # all that decides the text
POINTER_BYTES = 8
COUNT_BITS, WIDE_BITS = 32, 64  # of positions
COUNTED = most_lanes(COUNT_BITS)
# Of code: it is none, for other GPUs, of a newer NVRTC than the driver compiles for, or of no use without its compiler.
REFUSALS = (
    "CUDA_ERROR_INVALID_IMAGE",
    "CUDA_ERROR_INVALID_PTX",
    "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
    "CUDA_ERROR_JIT_COMPILATION_DISABLED",
)


@frozen
class KernelContext:
    """What kernels of a device share."""

    context: Context
    compiler: Compiler
    limits: Limits
    launch: Callable[[Arguments, Any], None]


class Arguments(NamedTuple):
    """Those of cuLaunchKernel, in its order."""

    function: Any  # CUfunction; a library's kernel, which any context of the device runs
    grid_x: int
    grid_y: int
    grid_z: int
    block_x: int
    block_y: int
    block_z: int
    shared_bytes: int  # beside those that the kernel declares
    stream: Any
    parameters: int  # the address of an array of addresses
    extra: int


class Recorded(functools.partial):
    """A launch of one kernel: a partial of `launcher`'s function, of the arguments and of what they refer to."""

    @property
    def arguments(self) -> Arguments:
        return self.args[0]


def launcher(context: Context) -> Callable[[Arguments, Any], None]:
    """The function that launches. What it calls is looked up here, not each time."""
    launch_kernel = context.driver.cuLaunchKernel

    def launch(arguments: Arguments, owners: Any) -> None:
        if context.unusable is not None:
            raise context.unusable
        status = launch_kernel(*arguments)[0]
        if status:
            raise context.failed(status, "cuLaunchKernel")

    return launch


class Code:
    """A compiled variant, loaded by the driver; it goes with its last reference, once the device is done with it."""

    def __init__(self, kernel_context: KernelContext, source: Source | Shader, shared_bytes: int) -> None:
        self.source = source
        context, driver = kernel_context.context, kernel_context.context.driver
        self.context = context
        load = functools.partial(self._load, source.entry.encode())
        try:
            loaded: Any = kept(kernel_context.compiler, source.entry, source.text, load)
        except ValueError as error:
            raise CompileError(source.entry, f"the driver refuses the code: {error}", source.text) from None
        self.library, kernel = loaded
        with context.lock:
            self.owned = context.own(driver.cuLibraryUnload, self.library)
        if shared_bytes:
            most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            context.call(driver.cuKernelSetAttribute, most, shared_bytes, kernel, context.device)
        self.function = driver.CUfunction(int(kernel))

    def _load(self, entry: bytes, code: bytes) -> tuple[Any, Any]:
        """The library and its kernel. Raises ValueError for code that this driver does not take.

        Drivers may look at the code when they are asked for the kernel only.
        """
        driver = self.context.driver
        library = self._taken(driver.cuLibraryLoadData, code, [], [], 0, [], [], 0)
        try:
            return library, self._taken(driver.cuLibraryGetKernel, library, entry)
        except (ValueError, HologramError):  # the device was lost or closed meanwhile
            driver.cuLibraryUnload(library)
            raise

    def _taken(self, function: Callable[..., Any], *arguments: Any) -> Any:
        status, result = self.context.asked(function, *arguments)
        if status and status.name in REFUSALS:
            raise ValueError(self.context.library.error(status, function.__name__))
        if status:
            raise self.context.failed(status, function.__name__)
        return result

    def __del__(self) -> None:
        if hasattr(self, "owned"):
            self.context.let_go(self.owned)


class Form(NamedTuple):
    """A launch, but for where its operands lie: the code, workgroups along x, y and z, and its numbers."""

    code: Code
    groups: tuple[int, int, int]
    values: bytes


class CudaKernel(TextKernel):
    """See hologram.machine.device.Kernel. `wide`: what writes it with positions of 64 bits."""

    def __init__(self, kernel: Launchable, kernel_context: KernelContext) -> None:
        limits = kernel_context.limits
        super().__init__(kernel, limits, generator(kernel, cuda(COUNT_BITS), limits, FOLDER))
        self.kernel_context = kernel_context
        self.counted = COUNTED  # elements up to which positions are counted in 32 bits
        self.codes: dict[tuple[int, Variant], Code] = {}
        self._compiling = threading.Lock()  # not the context's: while NVRTC is at it, others compute
        if self.generator.only is not None:
            self._code(COUNT_BITS, self.generator.only)

    @functools.cached_property
    def wide(self) -> Generator:
        return generator(self.kernel, cuda(WIDE_BITS), self.limits, FOLDER)

    def launch(
        self, bindings: Bindings, scalars: Scalars, grid: Sequence[int], lengths: Sequence[int]
    ) -> Launch:
        """See TextKernel."""
        form = self.form(scalars, grid, lengths)
        if form is None:
            return nothing
        context = self.kernel_context.context
        with context.lock:
            context.check()
            addresses = [b.memory.address + b.offset for b in bindings]
            block = Block.of(self._operands(addresses, scalars), form.values, self._epilogue(addresses))
            owners = (form.code, block.memory, *(b.memory for b in bindings))
            return Recorded(self.kernel_context.launch, self.arguments(form, block), owners)

    def form(self, scalars: Scalars, grid: Sequence[int], lengths: Sequence[int]) -> Form | None:
        """A launch but for where its operands lie; None where there is nothing to launch."""
        self.kernel_context.context.check()
        many = self.generator.only is None and max(math.prod(grid), *lengths, 0) > self.counted
        written, bits = (self.wide, WIDE_BITS) if many else (self.generator, COUNT_BITS)
        code = self._code(bits, written.variant(grid, scalars, lengths))
        groups = code.source.groups(grid, self.limits)
        return Form(code, groups, code.source.pack(scalars, grid, lengths)) if math.prod(groups) else None

    def arguments(self, form: Form, block: Block) -> Arguments:
        """What cuLaunchKernel is given."""
        own, stream = form.code.source.workgroup, self.kernel_context.context.stream
        return Arguments(
            form.code.function, *form.groups, *own, self.kernel.shared_bytes, stream, block.address, 0
        )

    def _code(self, bits: int, variant: Variant) -> Code:
        with self._compiling:
            if (bits, variant) not in self.codes:
                source = (self.wide if bits == WIDE_BITS else self.generator).source(variant)
                generated(source.entry, "CUDA", lambda: source.text)
                self.codes[bits, variant] = Code(self.kernel_context, source, self.kernel.shared_bytes)
            return self.codes[bits, variant]

    def _operands(self, addresses: Sequence[int], scalars: Scalars) -> list[bytes]:
        """The buffers that are parameters, all but those that only an epilogue reads: pointers, and maps of tensors."""
        count = len(addresses) - len(self.kernel.read_by_epilogue)
        found = [address.to_bytes(POINTER_BYTES, "little") for address in addresses[:count]]
        for tensor in self.kernel.maps:
            place = self.place_of(tensor)
            found[place] = self.encoder(tensor, scalars)(addresses[place])
        return found

    def place_of(self, tensor: TensorMap) -> int:
        """Which of the buffers a map is of."""
        return next(k for k, b in enumerate(self.kernel.buffers) if b.name == tensor.buffer)

    def encoder(self, tensor: TensorMap, scalars: Scalars) -> Callable[[int], bytes]:
        """What makes the parameter for a map, of the address of its buffer."""
        named = dict(zip((s.name for s in self.kernel.scalars), scalars, strict=True))
        dtype = self.kernel.buffers[self.place_of(tensor)].dtype
        context = self.kernel_context.context
        return lambda address: tensor_maps.encoded(context, tensor, dtype, address, named)

    def _epilogue(self, addresses: Sequence[int]) -> bytes | None:
        """The function object that a tile with accumulators takes last: a pointer to each buffer it reads."""
        if not self.kernel.accumulates:
            return None
        extra = [addresses[k] for k in self.kernel.read_by_epilogue]
        return b"".join(address.to_bytes(POINTER_BYTES, "little") for address in extra)


@frozen(eq=False)
class Block:
    """Memory that holds the parameters of a launch; `places` says at which byte each is.

    It begins with the array of their addresses. An empty struct is a parameter of one byte.
    """

    memory: Any
    address: int
    places: tuple[int, ...]

    @staticmethod
    def of(operands: Sequence[bytes], values: bytes, epilogue: bytes | None) -> Block:
        parts = [*operands, *(part or b"\0" for part in (values, epilogue) if part is not None)]
        places, end = [], POINTER_BYTES * len(parts)
        for part in parts:
            places.append(end)
            end += -(-len(part) // POINTER_BYTES) * POINTER_BYTES
        held = ctypes.create_string_buffer(end)
        start = ctypes.addressof(held)
        table = b"".join((start + place).to_bytes(POINTER_BYTES, "little") for place in places)
        held[: len(table)] = table
        for place, part in zip(places, parts, strict=True):
            held[place : place + len(part)] = part
        return Block(held, start, tuple(places))
