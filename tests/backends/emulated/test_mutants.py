"""Errors planted in kernels and in launches: on the emulated card the suite's own tests fail for each of them.

Each mutant names a test of the suite, which passes without the error (tests/test_ops.py) and must not with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")

import hologram as hg
from hologram.backends.cuda import device, kernel
from hologram.backends.cuda.launches import graph
from hologram.backends.cuda.launches.told import Slot, slots_of
from hologram.backends.cuda.memory import Transfers
from hologram.compiled import told
from hologram.foundation import dtypes
from hologram.machine.choices import Candidate
from hologram.opset import OPERATIONS
from tests import test_ops
from tests.backends.emulated import cuda as machine
from tests.backends.emulated import test_matrix_units as units
from tests.backends.emulated.cuda.driver import Driver
from tests.backends.emulated.cuda.kernels import Clang

pytestmark = pytest.mark.usefixtures("installed")


@contextmanager
def failing(*errors: type[Exception]) -> Iterator[hg.Executor]:
    """An executor whose use must fail as the suite does; what it leaves behind then is not looked at."""
    executor = hg.Executor(backend=machine.NAME)
    try:
        with pytest.raises((AssertionError, hg.DeviceLost, *errors)):
            yield executor
    finally:
        for context in machine.library().driver.contexts:
            context.error = "CUDA_ERROR_LAUNCH_FAILED"
        with suppress(hg.DeviceLost):
            executor.close()


def operation(name: str, dtype: str = "f32") -> Callable[[hg.Executor], None]:
    """The suite's test of an operation."""
    return lambda executor: test_ops.test_operation(OPERATIONS[name], dtypes.named(dtype), executor)


@dataclass(frozen=True)
class Text:
    """A mutant of the kernels: what matches `correct` is written as `wrong`, the first time or everywhere."""

    correct: str
    wrong: str
    test: Callable[[hg.Executor], None]
    first: bool = False


class Mutating(Clang):
    """Clang, given another text."""

    def __init__(self, mutant: Text) -> None:
        super().__init__(90)
        self.identity = repr(mutant)
        self.mutant = mutant
        self.planted = 0

    def compile(self, entry: str, text: str) -> bytes:
        changed, count = re.subn(self.mutant.correct, self.mutant.wrong, text, count=int(self.mutant.first))
        self.planted += count
        return super().compile(entry, changed)


# The suite's own samples have one row at most whose maximum grows much from one turn to the next.
TURNS = partial(units.test_attention, 64, False, dtypes.f16)
ATTENTION = operation("scaled_dot_product_attention", "f16")
HALVES = operation("matmul", "f16")


def rounded(executor: hg.Executor) -> None:
    """A product of f32 by matrix units, of operands that lie along k and across."""
    executor.target = replace(executor.target, limits=executor.target.limits.rounding())
    a = np.random.default_rng(0).integers(-3, 4, (40, 40)).astype(np.float32) + np.float32(2.0**-14)
    for x in (executor.tensor(a), executor.tensor(a).permute((1, 0))):
        kept = x.to_numpy().astype(np.float64)
        np.testing.assert_allclose(hg.matmul(x, x).to_numpy(), kept @ kept, atol=0.02)


def long_softmax(executor: hg.Executor) -> None:
    x = np.random.default_rng(0).standard_normal((3, 3000)).astype(np.float32)
    weights = np.exp(x.astype(np.float64))
    found = hg.softmax(executor.tensor(x), dim=1).to_numpy()
    np.testing.assert_allclose(found, weights / weights.sum(1, keepdims=True), rtol=1e-5)


def by_turns(executor: hg.Executor) -> None:
    """A product by the kernel that brings nothing ahead."""
    units.choose(executor, Candidate("matmul", (("QUADS_M", 2), ("QUADS_N", 2), ("TILE_K", 16)), (16, 16)))
    operation("matmul")(executor)


BARRIER = r"__syncthreads\(\);"
TEXTS = {
    "no barrier behind what others read": Text(
        rf"(partial_f32\[thread_index / 32u\] = .*\n\s*\}}\s*){BARRIER}", r"\1", operation("sum")
    ),
    "no barrier between sums of a row": Text(rf"{BARRIER}(?=\s*float v\d+_0 = 0)", "", long_softmax),
    "a subgroup's half left out": Text(
        r"(__shfl_xor_sync\(0xffffffffu, \w+, )16", r"\g<1>8", operation("sum")
    ),
    "no barrier before a tile is used": Text(rf"{BARRIER}(?=\s*// Multiply)", "", operation("matmul")),
    "no barrier before a tile is filled again": Text(rf"{BARRIER}(?=\s*\}}\s*// Store)", "", by_turns),
    "copies of f32 that nobody waits for": Text(r"wait_for_copies<STAGES - 2>\(\);", "", operation("matmul")),
    "copies of others of f32 that nobody waits for": Text(
        rf"(wait_for_copies<STAGES - 2>\(\);\s*){BARRIER}", r"\1", operation("matmul")
    ),
    "a stage of f32 filled too soon": Text(
        r"load\(turn \+ STAGES - 1\);", "load(turn + STAGES);", operation("matmul")
    ),
    "elements of f32 that lie elsewhere": Text(
        r"place = ALONG_K \? i / TILE_K : i % LENGTH", "place = i / TILE_K", operation("matmul")
    ),
    "another half of a tile": Text(
        r"half \* TILE_N / 2\);", "(1 - half) * TILE_N / 2);", operation("matmul")
    ),
    "elements past the end of k": Text(
        r"step < steps && position < length", "position < length", operation("matmul")
    ),
    "a race in a scan": Text(rf"{BARRIER}(?=\s*totals\[thread_index\] \+= before)", "", operation("cumsum")),
    "a barrier that some threads miss": Text(
        BARRIER, "if (thread_index < 9u) __syncthreads();", operation("sum")
    ),
    "a wrong index": Text(r"word = group \* 256u", "word = group * 255u + 1u", operation("add")),
    "a wrong element": Text(r"(\w+)_4\.z(?=[,)])", r"\1_4.y", operation("add")),
    "an unguarded tail": Text(r"if \(first >= lanes\) \{ return; \}", "", operation("add")),
    "an unguarded edge": Text(r"row < params\.m && column < params\.n", "true", operation("matmul")),
    "a sum that begins elsewhere": Text(r"v(\d+)_0 = 0\.0f;", r"v\1_0 = 1.0f;", operation("sum")),
    "a turn too few": Text(r"step < params\.k", "step + TILE_K < params.k", operation("matmul")),
    "swapped buffers": Text(r"const T\* a, const T\* b", "const T* b, const T* a", operation("matmul")),
    "swapped scalars": Text(r"unsigned m, k, n;", "unsigned k, m, n;", operation("matmul")),
    "copies that nobody waits for": Text(r"wait_for_copies<STAGES - 2>\(\);", "", HALVES),
    "copies of others that nobody waits for": Text(
        rf"(wait_for_copies<STAGES - 2>\(\);\s*){BARRIER}", r"\1", HALVES
    ),
    "copies waited for a turn too late": Text(r"<STAGES - 2>", "<STAGES - 1>", HALVES),
    "a stage filled too soon": Text(r"load\(turn \+ STAGES - 1\);", "load(turn + STAGES);", HALVES),
    "pieces that lie elsewhere": Text(r"tile \+ place\(i / PIECES, i % PIECES\)", "tile + i * 8", HALVES),
    "fragments not transposed": Text(
        r"fragments<false, true>\(right", "fragments<false, false>(right", HALVES
    ),
    "matrices of a fragment swapped": Text(
        r"fragments<false, false>\(left", "fragments<true, false>(left", HALVES
    ),
    "a fragment of other columns": Text(r"right\[j / 2\]\[j % 2 \* 2\]", "right[j / 2][0]", HALVES),
    "results in the wrong lines": Text(r"lane / 4 \+ 8 \* half", "lane % 8 + 8 * half", HALVES),
    "a tail copied whole": Text(r"sizeof\(T\) \* count\);", "16);", HALVES),
    "operands that are not rounded": Text(r"round_operands\(out, T\(\)\);", "", rounded),
    "elements of other lines": Text(r"lane % 4 \+ 4 \* down", "lane / 8 + 4 * down", rounded),
    "a pair past the last column": Text(r"column \+ 1 == params\.n", "false", HALVES),
    "keys of two turns ago": Text(
        r"turn \* KEYS, params\.s, 0, params\.e\)", "turn / 2 * KEYS, params.s, 0, params.e)", TURNS
    ),
    "keys that come too late": Text(rf"(wait_for_copies<0>\(\);\s*){BARRIER}", r"\1", ATTENTION),
    "weights of other rows": Text(r"part / 2\] \+ part % 2 \* 2", "part % 2] + part / 2 * 2", ATTENTION),
    "a maximum of two threads only": Text(r"distance < 4", "distance < 2", ATTENTION),
    "sums that are not rescaled": Text(
        r"sum\[j\]\[2 \* half\] \*= factor", "sum[j][2 * half] *= 1.0f", TURNS
    ),
    "keys past the last one": Text(r"column >= params\.s \|\| ", "", ATTENTION),
    "a causal row that looks ahead": Text(r"column > row\)", "column > row + 1)", ATTENTION),
    "a parameter more": Text(
        r", const Parameters p\) \{", ", const Parameters p, float* more) {", operation("add")
    ),
    "a parameter less": Text(r", const Parameters p\) \{", ") { Parameters p = {};", operation("add")),
    "too small a struct": Text(
        r"struct Params \{\s*unsigned m, k, n;\s*unsigned a_offset,",
        "static unsigned a_offset; struct Params { unsigned m, k, n; unsigned",
        operation("matmul"),
    ),
    "more threads than the bound": Text(
        r"__launch_bounds__\(256\)", "__launch_bounds__(128)", operation("add")
    ),
}


@pytest.mark.parametrize("mutant", TEXTS.values(), ids=[name.replace(" ", "_") for name in TEXTS])
def test_an_error_in_a_kernel_is_caught(mutant: Text) -> None:
    compiler = Mutating(mutant)
    with failing(hg.CompileError) as executor:
        opened: Any = executor.device
        opened.kernel_context = replace(opened.kernel_context, compiler=compiler)
        mutant.test(executor)
    assert compiler.planted, "the text has no such place: this planted nothing"


# What is wrong with launches.


def no_wait_before_a_read(patch: pytest.MonkeyPatch) -> None:
    """The host takes what the device has not written yet."""
    patch.setattr(Driver, "cuEventSynchronize", lambda self, event: (0,))


def swapped_pointers(patch: pytest.MonkeyPatch) -> None:
    def swapped(slot: Slot) -> Slot:
        words, *_ = zip(*slot.areas, strict=True)
        areas = [(word, *where) for word, (_, *where) in zip(words[::-1], slot.areas, strict=True)]
        return replace(slot, areas=tuple(areas))

    def every(*of: Any) -> tuple[Slot, ...] | None:
        found = slots_of(*of)
        return found and tuple(map(swapped, found))

    patch.setattr(device, "slots_of", every)


def wrong_numbers(patch: pytest.MonkeyPatch) -> None:
    form = kernel.CudaKernel.form

    def other(self: kernel.CudaKernel, *of: Any) -> Any:
        made = form(self, *of)
        return made and made._replace(values=made.values[4:] + made.values[:4])

    patch.setattr(kernel.CudaKernel, "form", other)


def launching(patch: pytest.MonkeyPatch, change: Callable[[Any, kernel.Arguments], kernel.Arguments]) -> None:
    """Has launches made with other arguments."""
    arguments = kernel.CudaKernel.arguments

    def other(self: kernel.CudaKernel, *of: Any) -> kernel.Arguments:
        return change(self.kernel_context.context, arguments(self, *of))

    patch.setattr(kernel.CudaKernel, "arguments", other)


def a_group_too_few(patch: pytest.MonkeyPatch) -> None:
    launching(patch, lambda _, a: a._replace(grid_x=max(1, a.grid_x - 1)))


def half_the_threads(patch: pytest.MonkeyPatch) -> None:
    launching(patch, lambda _, a: a._replace(block_x=-(-a.block_x // 2)))


def another_stream(patch: pytest.MonkeyPatch) -> None:
    """Nothing orders the launches after the writes, nor the reads after the launches."""
    streams: dict[int, Any] = {}

    def elsewhere(context: Any, a: kernel.Arguments) -> kernel.Arguments:
        made = streams.get(id(context)) or context.call(context.driver.cuStreamCreate, 1)
        streams[id(context)] = made
        return a._replace(stream=made)

    launching(patch, elsewhere)


def too_small_an_allocation(patch: pytest.MonkeyPatch) -> None:
    allocate = Driver.cuMemAllocFromPoolAsync

    def less(self: Driver, nbytes: int, pool: Any, stream: Any) -> Any:
        return allocate(self, max(1, nbytes // 2), pool, stream)

    patch.setattr(Driver, "cuMemAllocFromPoolAsync", less)


def a_fill_counted_in_bytes(patch: pytest.MonkeyPatch) -> None:
    fill = Transfers.fill

    def more(self: Transfers, memory: Any, offset: int, nbytes: int, pattern: bytes) -> None:
        fill(self, memory, offset, nbytes * len(pattern), pattern)

    patch.setattr(Transfers, "fill", more)


def a_graph_without_order(patch: pytest.MonkeyPatch) -> None:
    add = Driver.cuGraphAddKernelNode
    patch.setattr(
        Driver, "cuGraphAddKernelNode", lambda self, graph, before, count, node: add(self, graph, [], 0, node)
    )


def filled(executor: hg.Executor) -> None:
    np.testing.assert_array_equal(executor.allocate(3000).fill(2.0).to_numpy(), 2.0)


def replayed(executor: hg.Executor) -> None:
    """A function of several kernels on the same memory, as often as makes it a graph."""
    x = executor.tensor(np.zeros((50, 100), np.float32))
    step = hg.jit(lambda x: hg.matmul(hg.softmax(x, dim=1), x.permute((1, 0))).sum(axis=0).cumsum(axis=0))
    for k in range(told.OFTEN + graph.CALLS_BEFORE + 3):
        values = np.linspace(-k, 3, 5000, dtype=np.float32).reshape(50, 100)
        x.buffer.from_numpy(values)
        shares = np.exp(values - values.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        total = (shares @ values.T).sum(axis=0).cumsum()
        np.testing.assert_allclose(step(x).to_numpy(), total, rtol=1e-4, atol=1e-3)


LAUNCHES = [
    (no_wait_before_a_read, operation("add")),
    (no_wait_before_a_read, operation("batch_norm")),  # pinned memory is filled again too soon
    (swapped_pointers, operation("subtract")),
    (wrong_numbers, operation("sum")),
    (a_group_too_few, operation("sum")),
    (half_the_threads, operation("add")),
    (another_stream, operation("add")),
    (too_small_an_allocation, operation("cumsum")),
    (a_fill_counted_in_bytes, filled),
    (a_graph_without_order, replayed),
]


@pytest.mark.parametrize(
    ("plant", "test"), LAUNCHES, ids=[f"{k}_{plant.__name__}" for k, (plant, _) in enumerate(LAUNCHES)]
)
def test_an_error_of_a_launch_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], test: Callable[[hg.Executor], None]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with failing() as executor:
            test(executor)


@pytest.mark.parametrize("test", [filled, replayed])
def test_without_errors_they_pass(test: Callable[[hg.Executor], None]) -> None:
    with hg.Executor(backend=machine.NAME) as executor:
        test(executor)
