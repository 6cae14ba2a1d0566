"""The driver's functions for code, launches and graphs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from cuda.bindings import driver as real  # pyright: ignore[reportAttributeAccessIssue]

from tests.backends.emulated.cuda.kernels import Kernel, Outcome
from tests.backends.emulated.cuda.machine import OK, Machine, S
from tests.backends.emulated.cuda.memory import Misuse
from tests.backends.emulated.cuda.streams import Context, Graph, Launch, Stream

MOST_GROUPS = (2**31 - 1, 65535, 65535)
MOST_BLOCK = (1024, 1024, 64)


class KernelCalls(Machine):
    """See cuda.bindings.driver, of which each function has the arguments and answers."""

    def cuLibraryLoadData(
        self, code: bytes, options: Any, values: Any, count: int, more: Any, of_them: Any, further: int
    ) -> Any:
        try:
            return S.CUDA_SUCCESS, self._new((Kernel(code),))
        except ValueError:  # which a driver may not see yet
            return S.CUDA_SUCCESS, self._new((None,))

    def cuLibraryGetKernel(self, library: Any, name: bytes) -> Any:
        (kernel,) = self._get(library, tuple, "cuLibraryGetKernel")
        if kernel is None:
            return S.CUDA_ERROR_INVALID_IMAGE, None
        if kernel.entry.encode() != name:
            return S.CUDA_ERROR_NOT_FOUND, None
        return S.CUDA_SUCCESS, int(library) + 1  # found again by its library

    def cuKernelSetAttribute(self, which: Any, value: int, kernel: Any, device: Any) -> Any:
        who = "cuKernelSetAttribute"
        (found,) = self._get(int(kernel) - 1, tuple, who)
        if which != real.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            raise Misuse(f"{who}: of {which}, which nobody sets")
        if value + found.shared_bytes > self.attributes["MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"]:
            return (S.CUDA_ERROR_INVALID_VALUE,)
        found.most_dynamic_bytes = value
        return OK

    def cuLibraryUnload(self, library: Any) -> Any:
        with self.lock:
            self._pop(library, tuple, "cuLibraryUnload")
            self._unused(int(library), "cuLibraryUnload")
        return OK

    def _unused(self, handle: int, who: str) -> None:
        for thing in self.handles.values():
            waits = isinstance(thing, Stream) and not thing.context.error
            if waits and any(handle in work.uses for work in thing.queue):
                raise Misuse(f"{who}: work that was enqueued still needs it")

    def cuLaunchKernel(self, function: Any, *rest: Any) -> Any:
        *sizes, shared, stream, parameters, extra = rest
        if extra:
            raise Misuse("cuLaunchKernel: with extra options, which no kernel here asks for")
        with self.lock:
            self.calls += 1
            into = self.stream_of(stream, "cuLaunchKernel", current=False)
            launch = self._launch(function, sizes[:3], sizes[3:], shared, parameters)
            into.add(lambda: self._run(launch, into.context), launch.library)
            return self._status(into.context)

    def _launch(
        self, function: Any, grid: Sequence[int], block: Sequence[int], shared: int, parameters: int
    ) -> Launch:
        library = int(function) - 1
        (kernel,) = self._get(library, tuple, "a launch")
        who = f"a launch of {kernel.entry}"
        if any(not 0 < n <= most for n, most in zip(grid, MOST_GROUPS, strict=True)):
            raise Misuse(f"{who}: over {tuple(grid)} workgroups")
        if any(not 0 < n <= most for n, most in zip(block, MOST_BLOCK, strict=True)):
            raise Misuse(f"{who}: in workgroups of {tuple(block)}")
        if np.prod(block) > kernel.most_threads:
            raise Misuse(
                f"{who}: {tuple(block)} threads, more than its launch bound of {kernel.most_threads}"
            )
        most = self.attributes["MAX_SHARED_MEMORY_PER_BLOCK"]
        allowed = (
            most - kernel.shared_bytes if kernel.most_dynamic_bytes is None else kernel.most_dynamic_bytes
        )
        if kernel.shared_bytes > most or shared > allowed:
            raise Misuse(f"{who}: {kernel.shared_bytes} and {shared} bytes of shared memory")
        (x, y, z), (u, v, w) = grid, block
        return Launch(kernel, library, _parameters(kernel, parameters, who), (x, y, z), (u, v, w), shared)

    def _run(self, launch: Launch, context: Context) -> None:
        """Runs a kernel, whose buffers must be there, and which must leave all other memory alone."""
        kernel, card = launch.kernel, self.cards[context.ordinal]
        if context.error:
            return
        touched = []
        for k in kernel.pointers:
            address = int.from_bytes(launch.parameters[k], "little")
            found = card.around(address)
            if found is None or found.gone:
                raise Misuse(f"{kernel.entry}: parameter {k} points to no memory, or to none that is left")
            touched.append(found)
        for extent in filter(None, map(self.tensor_maps.get, launch.parameters)):
            found = card.around(extent.address)
            if found is None or found.gone or extent.address + extent.nbytes > found.address + found.nbytes:
                raise Misuse(f"{kernel.entry}: a tensor's map reaches outside of memory, or of what is left")
        outcome = kernel.run(launch.parameters, launch.grid, launch.block, launch.shared_bytes)
        if outcome is Outcome.TRAPPED:
            context.error = S.CUDA_ERROR_ILLEGAL_ADDRESS.name
        if outcome is Outcome.STUCK:
            raise Misuse(f"{kernel.entry}: threads ended while others of their workgroup wait at a barrier")
        for allocation in touched:
            allocation.check(kernel.entry)

    # Graphs.

    def cuGraphCreate(self, flags: int) -> Any:
        return S.CUDA_SUCCESS, self._new(Graph())

    def cuGraphAddKernelNode(self, graph: Any, before: Sequence[int], count: int, node: Any) -> Any:
        found: Graph = self._get(graph, Graph, "cuGraphAddKernelNode")
        if count != len(before) or not set(before) <= set(found.nodes):
            raise Misuse("cuGraphAddKernelNode: after nodes that the graph does not have")
        if self._get(node.ctx, Context, "cuGraphAddKernelNode").error:
            raise Misuse("cuGraphAddKernelNode: in a context that is lost")
        grid = (node.gridDimX, node.gridDimY, node.gridDimZ)
        block = (node.blockDimX, node.blockDimY, node.blockDimZ)
        number = next(self._numbers)
        found.nodes[number] = (
            self._launch(node.kern, grid, block, node.sharedMemBytes, node.kernelParams),
            tuple(before),
        )
        return S.CUDA_SUCCESS, number

    def cuGraphInstantiate(self, graph: Any, flags: int) -> Any:
        context = self.current_context("cuGraphInstantiate")
        launches = self._get(graph, Graph, "cuGraphInstantiate").ordered()
        return S.CUDA_SUCCESS, self._new(Executable(context, launches))

    def cuGraphDestroy(self, graph: Any) -> Any:
        self._pop(graph, Graph, "cuGraphDestroy")
        return OK

    def cuGraphLaunch(self, executable: Any, stream: Any) -> Any:
        with self.lock:
            into = self.stream_of(stream, "cuGraphLaunch", current=False)
            found: Executable = self._get(executable, Executable, "cuGraphLaunch")
            if found.context is not into.context:
                raise Misuse("cuGraphLaunch: the graph is of another context than the stream")

            def run() -> None:
                for launch in found.launches:
                    self._run(launch, into.context)

            into.add(run, int(executable), *(launch.library for launch in found.launches))
            return self._status(into.context)

    def cuGraphExecDestroy(self, executable: Any) -> Any:
        with self.lock:
            self._pop(executable, Executable, "cuGraphExecDestroy")
            self._unused(int(executable), "cuGraphExecDestroy")
        return OK


class Executable:
    """An instantiated graph."""

    def __init__(self, context: Context, launches: Sequence[Launch]) -> None:
        self.context = context
        self.launches = launches


def _parameters(kernel: Kernel, table: int, who: str) -> tuple[bytes, ...]:
    """What the driver copies of a launch's parameters.

    It knows their sizes and takes the rest on trust. Here they must lie behind their table one after the other, each
    at the next multiple of 8, so that one too many, one too few, or one of another size is seen.
    """
    count = len(kernel.sizes)
    places = (ctypes.c_void_p * count).from_address(table)
    end = table + 8 * count
    for k, (place, size) in enumerate(zip(places, kernel.sizes, strict=True)):
        if place != end:
            raise Misuse(
                f"{who}: parameter {k} of {count} does not follow the one before, which does not fit"
            )
        end += -(-size // 8) * 8
    return tuple(ctypes.string_at(p, size) for p, size in zip(places, kernel.sizes, strict=True))
