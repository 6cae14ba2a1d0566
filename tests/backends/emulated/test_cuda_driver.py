"""The emulated card sees what no correct program does: each of its checks, provoked."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")

from cuda.bindings import driver as real  # pyright: ignore[reportAttributeAccessIssue]

from tests.backends.emulated.cuda.driver import Driver
from tests.backends.emulated.cuda.kernels import Clang
from tests.backends.emulated.cuda.machine import CARD_BYTES
from tests.backends.emulated.cuda.memory import Misuse

TEXT = """
struct Parameters { unsigned count, first; };
extern "C" __global__ void __launch_bounds__(64) twice(const float* x, float* out, const Parameters p) {
    const unsigned i = p.first + blockIdx.x * 64u + threadIdx.x;
    if (i < p.count) out[i] = 2.0f * x[i];
}
"""
BYTES = 4096


class Program:
    """What a program has done that is about to go wrong: a stream, two memories, pinned memory and a kernel."""

    def __init__(self, card: int = 0) -> None:
        self.driver = driver = Driver()
        driver.cuInit(0)
        self.context = self.value(driver.cuDevicePrimaryCtxRetain(card))
        driver.cuCtxPushCurrent(self.context)
        self.stream = self.value(driver.cuStreamCreate(1))
        properties = real.CUmemPoolProps()
        properties.allocType = real.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = real.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = card
        self.pool = self.value(driver.cuMemPoolCreate(properties))
        self.x, self.out = (self.allocated(BYTES) for _ in range(2))
        self.host = self.value(driver.cuMemHostAlloc(BYTES, 0))
        code = Clang(90).compile("twice", TEXT)
        self.library = self.value(driver.cuLibraryLoadData(code, [], [], 0, [], [], 0))
        self.kernel = self.value(driver.cuLibraryGetKernel(self.library, b"twice"))

    @staticmethod
    def value(answer: tuple) -> Any:
        assert not answer[0]
        return answer[1]

    def allocated(self, nbytes: int) -> int:
        return self.value(self.driver.cuMemAllocFromPoolAsync(nbytes, self.pool, self.stream))

    def table(self, *parameters: bytes) -> int:
        """The address of a launch's parameters."""
        size = 8 * len(parameters) + sum(-(-len(p) // 8) * 8 for p in parameters)
        self.held = ctypes.create_string_buffer(size)
        start, place = ctypes.addressof(self.held), 8 * len(parameters)
        for k, parameter in enumerate(parameters):
            self.held[8 * k : 8 * k + 8] = (start + place).to_bytes(8, "little")
            self.held[place : place + len(parameter)] = parameter
            place += -(-len(parameter) // 8) * 8
        return start

    def parameters(self, count: int = BYTES // 4, first: int = 0) -> list[bytes]:
        words = np.array([count, first], np.uint32).tobytes()
        return [self.x.to_bytes(8, "little"), self.out.to_bytes(8, "little"), words]

    def launch(
        self, *parameters: bytes, grid: tuple[int, ...] = (16, 1, 1), block: tuple[int, ...] = (64, 1, 1)
    ) -> None:
        table = self.table(*(parameters or self.parameters()))
        self.driver.cuLaunchKernel(self.kernel, *grid, *block, 0, self.stream, table, 0)

    def upload(self, values: np.ndarray) -> None:
        ctypes.memmove(self.host, values.ctypes.data, values.nbytes)
        self.driver.cuMemcpyHtoDAsync(self.x, self.host, values.nbytes, self.stream)

    def download(self, wait: bool = True) -> np.ndarray:
        self.driver.cuMemcpyDtoHAsync(self.host, self.out, BYTES, self.stream)
        if wait:
            self.wait()
        return np.frombuffer(ctypes.string_at(self.host, BYTES), np.float32)

    def wait(self) -> None:
        self.driver.cuStreamSynchronize(self.stream)

    def end(self) -> None:
        driver = self.driver
        for memory in (self.x, self.out):
            driver.cuMemFreeAsync(memory, self.stream)
        driver.cuMemFreeHost(self.host)
        self.wait()
        driver.cuLibraryUnload(self.library)
        driver.cuMemPoolDestroy(self.pool)
        driver.cuStreamDestroy(self.stream)
        driver.cuDevicePrimaryCtxRelease(0)


@pytest.fixture
def program() -> Iterator[Program]:
    made = Program()
    yield made
    made.driver.current.stack = []


VALUES = np.arange(BYTES // 4, dtype=np.float32)


def test_a_correct_program_computes(program: Program) -> None:
    program.upload(VALUES)
    program.wait()
    program.launch()
    np.testing.assert_array_equal(program.download(), 2 * VALUES)
    program.end()


def test_nothing_is_done_before_somebody_waits(program: Program) -> None:
    program.upload(VALUES)
    program.launch()
    found = program.download(wait=False)
    np.testing.assert_array_equal(found, VALUES)  # still what was to be copied to the device
    program.wait()
    assert program.download()[3] == 6.0


def test_fresh_memory_holds_poison(program: Program) -> None:
    assert np.isnan(program.download()).all()


def use_after_free(p: Program) -> None:
    p.driver.cuMemFreeAsync(p.out, p.stream)
    p.launch()
    p.wait()


def copy_after_free(p: Program) -> None:
    p.driver.cuMemFreeAsync(p.x, p.stream)
    p.upload(VALUES)


def write_after_free(p: Program) -> None:
    p.driver.cuMemFreeAsync(p.x, p.stream)
    p.wait()
    ctypes.memset(p.x, 1, 4)
    p.driver.cards[0].close()


def double_free(p: Program) -> None:
    for _ in range(2):
        p.driver.cuMemFreeAsync(p.x, p.stream)


def free_of_the_middle(p: Program) -> None:
    p.driver.cuMemFreeAsync(p.x + 256, p.stream)


def write_beside_a_buffer(p: Program) -> None:
    p.launch(*p.parameters(count=BYTES // 4 + 1), grid=(17, 1, 1))
    p.wait()


def too_few_parameters(p: Program) -> None:
    p.launch(*p.parameters()[1:])


def too_many_parameters(p: Program) -> None:
    p.launch(*p.parameters(), bytes(8))


def a_parameter_of_another_size(p: Program) -> None:
    x, out, words = p.parameters()
    p.launch(x, out + bytes(8), words)


def a_parameter_that_is_no_memory(p: Program) -> None:
    p.launch(bytes(8), *p.parameters()[1:])
    p.wait()


def too_many_threads(p: Program) -> None:
    p.launch(block=(128, 1, 1))


def a_workgroup_without_threads(p: Program) -> None:
    p.launch(block=(64, 0, 1))


def too_many_groups(p: Program) -> None:
    p.launch(grid=(1, 70_000, 1))


def an_empty_grid(p: Program) -> None:
    p.launch(grid=(0, 1, 1))


def copy_past_the_end(p: Program) -> None:
    p.driver.cuMemcpyDtoHAsync(p.host, p.out + 4, BYTES, p.stream)


def copy_from_memory_that_is_not_pinned(p: Program) -> None:
    p.driver.cuMemcpyHtoDAsync(p.x, VALUES.ctypes.data, BYTES, p.stream)


def copy_of_overlapping_ranges(p: Program) -> None:
    p.driver.cuMemcpyDtoDAsync(p.x, p.x + 16, 64, p.stream)


def an_unaligned_fill(p: Program) -> None:
    p.driver.cuMemsetD32Async(p.x + 2, 1, 4, p.stream)


def a_fill_past_the_end(p: Program) -> None:
    p.driver.cuMemsetD8Async(p.x, 1, BYTES + 1, p.stream)


def a_stream_that_was_destroyed(p: Program) -> None:
    p.driver.cuStreamDestroy(p.stream)
    p.launch()


def a_stream_of_another_context(p: Program) -> None:
    p.driver.cuCtxPushCurrent(p.value(p.driver.cuDevicePrimaryCtxRetain(1)))
    p.upload(VALUES)


def an_event_of_another_context(p: Program) -> None:
    driver = p.driver
    driver.cuCtxPushCurrent(p.value(driver.cuDevicePrimaryCtxRetain(1)))
    event = p.value(driver.cuEventCreate(0))
    driver.cuCtxPopCurrent()
    driver.cuEventRecord(event, p.stream)


def no_current_context(p: Program) -> None:
    p.driver.cuCtxPopCurrent()
    p.upload(VALUES)


def a_context_that_was_given_back(p: Program) -> None:
    context = p.value(p.driver.cuDevicePrimaryCtxRetain(1))
    p.driver.cuDevicePrimaryCtxRelease(1)
    p.driver.cuCtxPushCurrent(context)


def a_context_given_back_twice(p: Program) -> None:
    p.driver.cuDevicePrimaryCtxRelease(1)


def a_driver_that_was_not_started(p: Program) -> None:
    Driver().cuDeviceGet(0)


def time_of_an_event_never_recorded(p: Program) -> None:
    events = [p.value(p.driver.cuEventCreate(0)) for _ in range(2)]
    p.driver.cuEventElapsedTime(*events)


def time_of_an_event_without_time(p: Program) -> None:
    flags = real.CUevent_flags.CU_EVENT_DISABLE_TIMING
    events = [p.value(p.driver.cuEventCreate(flags)) for _ in range(2)]
    for event in events:
        p.driver.cuEventRecord(event, p.stream)
    p.driver.cuEventElapsedTime(*events)


def an_event_that_was_destroyed(p: Program) -> None:
    event = p.value(p.driver.cuEventCreate(0))
    p.driver.cuEventDestroy(event)
    p.driver.cuEventRecord(event, p.stream)


def code_unloaded_while_in_use(p: Program) -> None:
    p.launch()
    p.driver.cuLibraryUnload(p.library)


def a_kernel_of_unloaded_code(p: Program) -> None:
    p.driver.cuLibraryUnload(p.library)
    p.launch()


def memory_left_behind(p: Program) -> None:
    p.allocated(4)
    p.end()


def an_event_left_behind(p: Program) -> None:
    p.driver.cuEventCreate(0)
    p.end()


def graph_of(p: Program, chained: bool = True) -> Any:
    """Two launches, of which the second doubles what the first gave."""
    driver, nodes = p.driver, []
    graph = p.value(driver.cuGraphCreate(0))
    for source in (p.x, p.out):
        node = SimpleNamespace(kern=p.kernel, ctx=p.context, sharedMemBytes=0)
        node.gridDimX, node.gridDimY, node.gridDimZ = 16, 1, 1
        node.blockDimX, node.blockDimY, node.blockDimZ = 64, 1, 1
        node.kernelParams = p.table(source.to_bytes(8, "little"), *p.parameters()[1:])
        before = nodes[-1:] if chained else []
        nodes.append(p.value(driver.cuGraphAddKernelNode(graph, before, len(before), node)))
    made = p.value(driver.cuGraphInstantiate(graph, 0))
    driver.cuGraphDestroy(graph)
    return made


def a_graph_destroyed_while_in_use(p: Program) -> None:
    graph = graph_of(p)
    p.driver.cuGraphLaunch(graph, p.stream)
    p.driver.cuGraphExecDestroy(graph)


def a_graph_left_behind(p: Program) -> None:
    graph_of(p)
    p.end()


def a_graph_over_freed_memory(p: Program) -> None:
    graph = graph_of(p)
    p.driver.cuMemFreeAsync(p.out, p.stream)
    p.driver.cuGraphLaunch(graph, p.stream)
    p.wait()


MISUSES = [
    (use_after_free, "points to no memory, or to none that is left"),
    (copy_after_free, "is in no memory, or in none that is left"),
    (write_after_free, "was written after it was freed"),
    (double_free, "is no memory, or no more"),
    (free_of_the_middle, "is no memory, or no more"),
    (write_beside_a_buffer, "twice wrote behind an allocation of 4096 bytes"),
    (too_few_parameters, "does not follow the one before"),
    (too_many_parameters, "does not follow the one before"),
    (a_parameter_of_another_size, "does not follow the one before"),
    (a_parameter_that_is_no_memory, "parameter 0 points to no memory"),
    (too_many_threads, "more than its launch bound of 64"),
    (a_workgroup_without_threads, "in workgroups of"),
    (too_many_groups, "over .* workgroups"),
    (an_empty_grid, "over .* workgroups"),
    (copy_past_the_end, "end outside of their memory"),
    (copy_from_memory_that_is_not_pinned, "is in no memory"),
    (copy_of_overlapping_ranges, "the ranges overlap"),
    (an_unaligned_fill, "must lie at multiples"),
    (a_fill_past_the_end, "end outside of their memory"),
    (a_stream_that_was_destroyed, "there is no Stream"),
    (a_stream_of_another_context, "of another context"),
    (an_event_of_another_context, "of different contexts"),
    (no_current_context, "no current context"),
    (a_context_that_was_given_back, "was given back"),
    (a_context_given_back_twice, "is not held"),
    (a_driver_that_was_not_started, "was not started"),
    (time_of_an_event_never_recorded, "never recorded"),
    (time_of_an_event_without_time, "takes no time"),
    (an_event_that_was_destroyed, "there is no Event"),
    (code_unloaded_while_in_use, "still needs it"),
    (a_kernel_of_unloaded_code, "there is no tuple"),
    (memory_left_behind, "still has memory"),
    (an_event_left_behind, "still has Event"),
    (a_graph_destroyed_while_in_use, "still needs it"),
    (a_graph_left_behind, "still has Executable"),
    (a_graph_over_freed_memory, "points to no memory, or to none that is left"),
]


@pytest.mark.parametrize(("misuse", "words"), MISUSES, ids=lambda v: v.__name__ if callable(v) else "")
def test_it_is_seen(program: Program, misuse: Callable[[Program], None], words: str) -> None:
    with pytest.raises(Misuse, match=words):
        misuse(program)


def test_a_graph_without_an_order_runs_in_another(program: Program) -> None:
    program.upload(VALUES)
    program.wait()
    for chained, factor in ((True, 4), (False, 2)):
        program.driver.cuGraphLaunch(graph_of(program, chained), program.stream)
        np.testing.assert_array_equal(program.download(), factor * VALUES)


def test_no_room_is_an_answer(program: Program) -> None:
    status, _ = program.driver.cuMemAllocFromPoolAsync(CARD_BYTES + 1, program.pool, program.stream)
    assert status == real.CUresult.CUDA_ERROR_OUT_OF_MEMORY


def test_a_kernel_that_traps_ends_its_context(program: Program) -> None:
    program.launch(*program.parameters(count=2**32 - 1, first=2**31))
    assert program.driver.cuStreamSynchronize(program.stream)[0] == real.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    assert program.driver.cuCtxSynchronize()[0] == real.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS


def test_what_is_no_code_is_an_answer(program: Program) -> None:
    _, library = program.driver.cuLibraryLoadData(b"\x7fELF", [], [], 0, [], [], 0)  # which an H200's takes
    assert program.driver.cuLibraryGetKernel(library, b"twice")[0] == real.CUresult.CUDA_ERROR_INVALID_IMAGE
