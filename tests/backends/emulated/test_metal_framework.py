"""The emulated Mac sees what no correct program does: each of its checks, provoked."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from hologram.backends.metal.pipeline import FUNCTIONS_PRECISE, MATH_MODE_SAFE
from tests.backends.emulated.metal import objects
from tests.backends.emulated.metal.framework import Device, Emulated
from tests.backends.emulated.metal.memory import POISON, UNTRACKED
from tests.backends.emulated.metal.objects import Error, Misuse, Size

TEXT = """#include <metal_stdlib>
using namespace metal;
struct Parameters {
    uint count, first;
};
kernel void twice(
    device const float* x [[buffer(0)]],
    device float* out [[buffer(1)]],
    constant Parameters& p [[buffer(2)]],
    uint3 groups [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]) {
    const uint i = p.first + groups.x * 64u + thread_index;
    if (i < p.count) out[i] = 2.0f * x[i];
}
"""
BYTES = 4096
COUNT = BYTES // 4
PARAMETERS = COUNT.to_bytes(4, "little") + bytes(4)


class Program:
    """What a program has made that is about to go wrong: a queue, two buffers, a pipeline and an open encoder."""

    def __init__(self) -> None:
        framework = Emulated((Device(1),))
        self.metal = framework.metal
        (self.device,) = self.metal.MTLCopyAllDevices()
        self.queue = self.device.newCommandQueue()
        self.fence = self.device.newFence()
        self.x, self.out = (self.device.newBufferWithLength_options_(BYTES, UNTRACKED) for _ in range(2))
        self.pipeline = self.compiled(TEXT)
        self.commands = self.queue.commandBufferWithUnretainedReferences()
        self.encoder = self.commands.computeCommandEncoder()

    def compiled(self, text: str, threads: int = 64) -> Any:
        options = self.metal.MTLCompileOptions.alloc().init()
        options.setMathMode_(MATH_MODE_SAFE)
        options.setMathFloatingPointFunctions_(FUNCTIONS_PRECISE)
        library, error = self.device.newLibraryWithSource_options_error_(text, options, None)
        assert library is not None, error.localizedDescription()
        descriptor = self.metal.MTLComputePipelineDescriptor.alloc().init()
        descriptor.setComputeFunction_(library.newFunctionWithName_("twice"))
        descriptor.setMaxTotalThreadsPerThreadgroup_(threads)
        make = self.device.newComputePipelineStateWithDescriptor_options_reflection_error_
        return make(descriptor, 0, None, None)[0]

    def bind(self, encoder: Any = None, parameters: bytes = PARAMETERS) -> None:
        encoder = encoder or self.encoder
        encoder.setComputePipelineState_(self.pipeline)
        encoder.setBuffer_offset_atIndex_(self.x, 0, 0)
        encoder.setBuffer_offset_atIndex_(self.out, 0, 1)
        encoder.setBytes_length_atIndex_(parameters, len(parameters), 2)

    def dispatch(self, groups: int = COUNT // 64, threads: int = 64, encoder: Any = None) -> None:
        encoder = encoder or self.encoder
        encoder.dispatchThreadgroups_threadsPerThreadgroup_(Size(groups, 1, 1), Size(threads, 1, 1))

    def commit(self) -> None:
        self.encoder.endEncoding()
        self.commands.commit()

    def run(self) -> None:
        self.bind()
        self.dispatch()
        self.commit()

    def again(self) -> Any:
        """An encoder of another command buffer that launches the same."""
        commands = self.queue.commandBufferWithUnretainedReferences()
        encoder = commands.computeCommandEncoder()
        self.bind(encoder)
        self.dispatch(encoder=encoder)
        return commands, encoder

    def array(self, buffer: Any) -> np.ndarray:
        return np.frombuffer(buffer.contents().as_buffer(BYTES), np.float32)


@pytest.fixture(name="program")
def _program() -> Iterator[Program]:
    with objects.pool():
        yield Program()


def test_a_correct_program_runs_when_it_is_waited_for(program: Program) -> None:
    x, out = program.array(program.x), program.array(program.out)
    x[:] = np.arange(COUNT)
    program.run()
    assert (out.view(np.uint8) == POISON).all()  # whoever looks before the wait sees what was there
    assert program.commands.status() < program.metal.MTLCommandBufferStatusCompleted
    program.commands.waitUntilCompleted()
    np.testing.assert_array_equal(out, 2.0 * x)
    assert program.commands.GPUStartTime() <= program.commands.GPUEndTime()


def writes_outside(p: Program) -> None:
    p.bind(parameters=(COUNT + 8).to_bytes(4, "little") + bytes(4))
    p.dispatch(groups=COUNT // 64 + 1)
    p.commit()
    p.commands.waitUntilCompleted()


def released_too_early(p: Program) -> None:
    p.run()
    p.x = None
    p.commands.waitUntilCompleted()


def pipeline_released(p: Program) -> None:
    p.run()
    p.pipeline = None
    p.commands.waitUntilCompleted()


def no_fence(p: Program) -> None:
    p.run()
    commands, encoder = p.again()
    encoder.endEncoding()
    commands.commit()


def late_fence(p: Program) -> None:
    p.run()
    _, encoder = p.again()
    encoder.waitForFence_(p.fence)


def unpooled(p: Program) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects.pools, "depth", 0)
        p.queue.commandBufferWithUnretainedReferences()


def fast_math(p: Program) -> None:
    p.device.newLibraryWithSource_options_error_(TEXT, p.metal.MTLCompileOptions.alloc().init(), None)


def fast_functions(p: Program) -> None:
    options = p.metal.MTLCompileOptions.alloc().init()
    options.setMathMode_(MATH_MODE_SAFE)
    p.device.newLibraryWithSource_options_error_(TEXT, options, None)


def second_encoder(p: Program) -> None:
    p.commands.blitCommandEncoder()


def encode_after_the_end(p: Program) -> None:
    p.bind()
    p.encoder.endEncoding()
    p.dispatch()


def commit_twice(p: Program) -> None:
    p.run()
    p.commands.commit()


def missed_barrier(p: Program) -> None:
    p.pipeline = p.compiled(
        TEXT.replace("if (i <", "if (i < 9) threadgroup_barrier(mem_flags::mem_none); if (i <")
    )
    p.run()
    p.commands.waitUntilCompleted()


def crowded(p: Program) -> None:
    room = "threadgroup float room[9000]; room[thread_index] = 0; out[i] = room[thread_index];"
    p.pipeline = p.compiled(TEXT.replace("if (i <", f"{room} if (i <"))
    p.bind()
    p.dispatch()


def unused_resource(p: Program) -> None:
    text = TEXT.replace("uint count, first;", "device const float* more; uint count, first;")
    p.pipeline = p.compiled(text)
    p.bind(parameters=p.x.gpuAddress().to_bytes(8, "little") + PARAMETERS[:8])
    p.dispatch()


def byte_programs(p: Program, *numbers: int) -> None:
    p.encoder.endEncoding()
    first, last, size = numbers
    copy = p.commands.blitCommandEncoder().copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_
    copy(p.x, first, p.x if size == 8 else p.out, last, size)


def part_of_a_page(p: Program) -> None:
    pages = (ctypes.c_char * mmap.PAGESIZE)()
    start = ctypes.addressof(pages) // 8 * 8 + 8
    part = (ctypes.c_char * 8).from_address(start if start % mmap.PAGESIZE else start + 8)
    p.device.newBufferWithBytesNoCopy_length_options_deallocator_(part, 8, 0, None)


def without(step: str) -> Callable[[Program], None]:
    """A launch that leaves out one of its steps."""

    def act(p: Program) -> None:
        for name, arguments in {
            "pipeline": (p.encoder.setComputePipelineState_, (p.pipeline,)),
            "buffer": (p.encoder.setBuffer_offset_atIndex_, (p.x, 0, 0)),
            "out": (p.encoder.setBuffer_offset_atIndex_, (p.out, 0, 1)),
            "bytes": (p.encoder.setBytes_length_atIndex_, (PARAMETERS, 8, 2)),
        }.items():
            if name != step:
                arguments[0](*arguments[1])
        p.dispatch()

    return act


def bound(act: Callable[[Program], None]) -> Callable[[Program], None]:
    def both(p: Program) -> None:
        p.bind()
        act(p)

    return both


MISUSE: dict[str, tuple[Callable[[Program], None], str]] = {
    "a write outside": (writes_outside, "wrote outside of a buffer"),
    "a buffer released too early": (released_too_early, "released before the GPU was done"),
    "a pipeline released too early": (pipeline_released, "released before the GPU was done"),
    "no fence": (no_fence, "no fence orders them"),
    "a fence after the commands": (late_fence, "after its first command"),
    "no autorelease pool": (unpooled, "leaks"),
    "fast-math": (fast_math, "fast-math is on"),
    "fast functions": (fast_functions, "the functions of floats are the fast ones"),
    "two open encoders": (second_encoder, "another of its command buffer is open"),
    "encoding after the end": (encode_after_the_end, "after endEncoding"),
    "ending twice": (lambda p: (p.encoder.endEncoding(), p.encoder.endEncoding())[0], "after endEncoding"),
    "commit twice": (commit_twice, "committed twice"),
    "commit of an open encoder": (lambda p: p.commands.commit(), "while an encoder is open"),
    "an encoder after the commit": (
        lambda p: (p.commit(), p.commands.computeCommandEncoder())[0],
        "that was committed",
    ),
    "a wait without a commit": (lambda p: p.commands.waitUntilCompleted(), "not committed"),
    "times before the end": (lambda p: (p.run(), p.commands.GPUEndTime())[0], "before it is done"),
    "no pipeline": (without("pipeline"), "no pipeline is set"),
    "no buffer": (without("buffer"), "no buffer is bound to its argument 0"),
    "no bytes": (without("bytes"), "no bytes are bound to its argument 2"),
    "too few bytes": (lambda p: (p.bind(parameters=bytes(4)), p.dispatch())[0], "has 8 bytes, 4 are bound"),
    "an index too high": (lambda p: p.encoder.setBuffer_offset_atIndex_(p.x, 0, 31), "index 31"),
    "an offset too high": (lambda p: p.encoder.setBuffer_offset_atIndex_(p.x, BYTES, 0), "offset 4096"),
    "too many bytes": (lambda p: p.encoder.setBytes_length_atIndex_(bytes(5000), 5000, 2), "got 5000"),
    "bytes that are not there": (lambda p: p.encoder.setBytes_length_atIndex_(b"four", 8, 2), "are not 8"),
    "a crooked offset": (
        bound(lambda p: (p.encoder.setBuffer_offset_atIndex_(p.x, 2, 0), p.dispatch())[0]),
        "multiple of 4",
    ),
    "workgroups too large": (bound(lambda p: p.dispatch(threads=128)), "it takes 64 threads"),
    "no workgroups": (bound(lambda p: p.dispatch(groups=0)), "width=0"),
    "a barrier that some miss": (missed_barrier, "wait at a barrier"),
    "too much threadgroup memory": (crowded, "bytes of threadgroup memory"),
    "a blit of three bytes": (lambda p: byte_programs(p, 0, 0, 3), "multiples of 4"),
    "a blit past the end": (lambda p: byte_programs(p, BYTES - 4, 0, 12), "12 bytes at 4092"),
    "a blit over itself": (lambda p: byte_programs(p, 0, 4, 8), "overlap"),
    "memory that is no page": (part_of_a_page, "whole pages"),
    "reading past the end": (lambda p: (p.x.contents().as_buffer(BYTES + 1), None)[1], "4097 bytes"),
    "a pointer to who knows": (unused_resource, "no buffer of useResource"),
    "an unknown usage": (lambda p: p.encoder.useResource_usage_(p.x, 0), "usage 0"),
}


@pytest.mark.parametrize("name", MISUSE)
def test_misuse_is_seen(name: str, program: Program) -> None:
    act, said = MISUSE[name]
    with pytest.raises(Misuse, match=said):
        act(program)


def test_a_fence_orders_encoders(program: Program) -> None:
    program.bind()
    program.dispatch()
    program.encoder.updateFence_(program.fence)
    program.commit()
    commands = program.queue.commandBufferWithUnretainedReferences()
    encoder = commands.computeCommandEncoder()
    encoder.waitForFence_(program.fence)
    program.bind(encoder)
    program.dispatch(encoder=encoder)
    encoder.endEncoding()
    commands.commit()
    commands.waitUntilCompleted()


def test_a_command_buffer_may_fail(program: Program) -> None:
    program.queue.fail_next = Error(8, "no memory")
    program.run()
    program.commands.waitUntilCompleted()
    assert program.commands.error().code() == 8
    assert (program.array(program.out).view(np.uint8) == POISON).all()


def test_what_clang_refuses_has_a_message(program: Program) -> None:
    options = program.metal.MTLCompileOptions.alloc().init()
    options.setFastMathEnabled_(False)
    library, error = program.device.newLibraryWithSource_options_error_(
        "kernel void f() { no; }", options, None
    )
    assert library is None
    assert "undeclared identifier 'no'" in error.localizedDescription()
