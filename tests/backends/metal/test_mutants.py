"""Errors planted in kernels and in the backend: the emulated Mac shows each of them.

Every mutant is run beside the original, which must pass: so it is the planted error that is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.backends.metal.device import MetalDevice
from hologram.backends.metal.kernel import MetalKernel
from hologram.backends.metal.pipeline import Pipelines
from hologram.backends.metal.queue import Queue
from tests.backends.emulated.metal.commands import Encoder
from tests.backends.emulated.metal.objects import Misuse
from tests.backends.metal.test_device import Executor

Run = Callable[[hg.Executor], None]


def equal(got: Any, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(got.to_numpy(), wanted, rtol=1e-5, atol=1e-5)


def product(executor: hg.Executor) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((70, 130), (130, 66)))
    equal(executor.tensor(a) @ executor.tensor(b), a @ b)


def biased_product(executor: hg.Executor) -> None:
    """A tile whose epilogue reads a buffer."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((70, 130), (66, 130), (66,)))
    equal(hg.linear(executor.tensor(a), executor.tensor(b), executor.tensor(c)), a @ b.T + c)


def addition(executor: hg.Executor) -> None:
    x = np.arange(10_001, dtype=np.float32)
    equal(executor.tensor(x) + executor.tensor(x), x + x)


def row_sum(executor: hg.Executor) -> None:
    x = np.arange(3000, dtype=np.float32).reshape(3, 1000) % 7
    equal(hg.sum(executor.tensor(x), axis=1), x.sum(1))


def scan(executor: hg.Executor) -> None:
    x = np.arange(4000, dtype=np.float32) % 5
    equal(hg.cumsum(executor.tensor(x), axis=0), x.cumsum())


def attention(executor: hg.Executor) -> None:
    """Rows whose maxima grow by much from turn to turn, in the first of two heads."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, n, 12)).astype(np.float32) for n in (70, 150, 150))
    q[0], k[0] = np.abs(q[0]), np.abs(k[0]) * np.linspace(0, 8, 150)[:, None]
    found = hg.scaled_dot_product_attention(*(executor.tensor(x) for x in (q, k, v)), causal=True).to_numpy()
    scores = np.where(
        np.tri(70, 150, dtype=bool), q.astype(np.float64) @ k.swapaxes(1, 2) / np.sqrt(12), -np.inf
    )
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(found, weights / weights.sum(-1, keepdims=True) @ v, rtol=1e-4, atol=1e-4)


WAIT = "threadgroup_barrier(mem_flags::mem_threadgroup);"
# The run, what it is to fail with, and a text of its kernels with what takes its place.
KERNELS: dict[str, tuple[Run, type[BaseException], str, str]] = {
    "a barrier is missing in a product": (
        product, AssertionError, f"{WAIT}\n\n        // Multiply", "// Multiply",
    ),
    "a barrier is missing in a row's sum": (
        row_sum, AssertionError, "threadgroup_barrier(mem_flags::mem_threadgroup);", "",
    ),
    "a barrier is missing in a scan": (
        scan, AssertionError, "totals[thread_index] = total;\n    threadgroup_barrier(mem_flags::mem_threadgroup);",
        "totals[thread_index] = total;",
    ),
    "some threads miss a barrier": (
        row_sum, Misuse, "threadgroup_barrier(", "if (thread_index < 9u) threadgroup_barrier(",
    ),
    "a wrong index": (product, AssertionError, "line * A_LINE + place + n", "line * A_LINE + (place ^ 1) + n"),
    "no barrier ahead of the next turn": (
        product, AssertionError, f"{WAIT}\n    }}\n\n    // Store", "}\n\n    // Store",
    ),
    "fragments of other rows": (product, AssertionError, "own_row + SIDE * i) *", "own_row + SIDE * (i ^ 1)) *"),
    "fragments of other columns": (product, AssertionError, "own_column + SIDE * j, B_LINE", "SIDE * j, B_LINE"),
    "sums that begin anywhere": (
        product, AssertionError, "c[i][j] = make_filled_simdgroup_matrix<ACC, 8, 8>((ACC)0);", ";",
    ),
    "a store that nobody waits for": (
        product, AssertionError,
        "simdgroup_barrier(mem_flags::mem_threadgroup);\n            for (uint element", "for (uint element",
    ),
    "some threads of a simdgroup stay away": (
        product, Misuse, "simdgroup_multiply_accumulate(c", "if (lane != 3) simdgroup_multiply_accumulate(c",
    ),
    "operands that lie otherwise": (
        product, AssertionError,
        "B_ALONG_K ? params.b_row : params.b_column;", "B_ALONG_K ? params.b_column : params.b_row;",
    ),
    "a tail that is not guarded": (product, Misuse, "if (row < params.m && column < params.n)", ""),
    "keys that others have not brought yet": (
        attention, AssertionError, f"{WAIT}\n\n        // Scores", "// Scores",
    ),
    "values in the place of keys that are in use": (
        attention, AssertionError, f"{WAIT}\n\n        // Values take", "// Values take",
    ),
    "values that others have not brought yet": (
        attention, AssertionError, f"{WAIT}\n\n        // Sums of values", "// Sums of values",
    ),
    "keys in the place of values that are in use": (
        attention, AssertionError, f"{WAIT}\n    }}\n\n    // Store, a", "}\n\n    // Store, a",
    ),
    "keys that are not turned": (attention, AssertionError, "ulong2(0, 0), true", "ulong2(0, 0), false"),
    "a row's maximum of one thread": (
        attention, AssertionError, "highest = fmax(highest, simd_shuffle_xor(highest, distance));", ";",
    ),
    "sums that are not rescaled": (attention, AssertionError, "*= factors[first + i / SIDE]", "*= 1.0f"),
    "a factor of another row": (attention, AssertionError, "*= factors[first + i / SIDE]", "*= factors[i / SIDE]"),
    "a causal row that looks ahead": (attention, AssertionError, "key > row)", "key > row + 1)"),
    "columns of results that nobody asked for": (attention, AssertionError, " && column < params.ev)\n", ")\n"),
    "some threads do not rescale": (
        attention, Misuse, "if (simd_any(highest - top > GROWTH))", "if (highest - top > GROWTH)",
    ),
    "workgroups that overlap": (addition, AssertionError, "groups.y * 32768u + groups.x", "groups.y * 32768u"),
    "an argument in another's place": (addition, Misuse, "[[buffer(3)]]", "[[buffer(4)]]"),
    "memory of one address space for that of another": (
        addition,
        hg.CompileError,
        "device const float4* x [[buffer(0)]]",
        "constant float4* x [[buffer(0)]]",
    ),
    "threadgroup memory taken for a thread's own": (
        scan,
        hg.CompileError,
        "totals[thread_index] = total;",
        "thread T* mine = totals; mine[thread_index] = total;",
    ),
    "a store to memory that is only read": (addition, hg.CompileError, "device float4* ", "device const float4* "),
}  # fmt: skip


def mutate(patch: pytest.MonkeyPatch, old: str, new: str) -> list[str]:
    """Makes every kernel with that text another one; the list says which did."""
    original, changed = Pipelines.compile, []

    def compile_mutant(self: Pipelines, entry: str, text: str, threads: int) -> Any:
        mutant = text.replace(old, new)
        if mutant != text:
            changed.append(entry)
        return original(self, entry, mutant, threads)

    patch.setattr(Pipelines, "compile", compile_mutant)
    return changed


@pytest.mark.parametrize("name", KERNELS)
def test_a_mutant_of_a_kernel_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, error, old, new = KERNELS[name]
    with Executor() as executor:
        run(executor)
    changed = mutate(monkeypatch, old, new)
    with Executor() as executor, pytest.raises(error):
        run(executor)
    assert changed


def no_wait(patch: pytest.MonkeyPatch) -> None:
    """The host reads without waiting."""
    patch.setattr(MetalDevice, "_settled", lambda *_: None)  # private: an error planted


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """Encoders do not wait for those before."""
    patch.setattr(Encoder, "waitForFence_", lambda encoder, fence: None)


def nothing_held(patch: pytest.MonkeyPatch) -> None:
    """A batch lets go of what it refers to when it is handed over."""
    original = Queue.commit

    def commit(self: Queue) -> None:
        batch = self.batch
        original(self)
        if batch is not None:
            batch.held.clear()

    patch.setattr(Queue, "commit", commit)


def resources_untold(patch: pytest.MonkeyPatch) -> None:
    """The encoder is not told of buffers that a kernel reaches by pointers."""
    original = MetalKernel.dispatch
    patch.setattr(MetalKernel, "dispatch", lambda *a: original(*a)._replace(indirect=()))


def many_batches(executor: hg.Executor) -> None:
    a, one = executor.allocate(5000).fill(0.0), executor.allocate(5000).fill(1.0)
    for _ in range(120):
        hg.ops.vector_add(executor, a, one, a)
    equal(a, np.full(5000, 120, np.float32))


def freed_at_once(executor: hg.Executor) -> None:
    a, out = executor.allocate(5000).fill(1.0), executor.allocate(5000)
    hg.ops.vector_add(executor, a, a, out)
    executor.device.flush()
    executor.structures.clear()
    executor.bound.clear()
    a.live_block().memory.buffer = None
    equal(out, np.full(5000, 2, np.float32))


BACKEND: dict[str, tuple[Run, type[BaseException], Callable[[pytest.MonkeyPatch], None]]] = {
    "the host does not wait": (addition, AssertionError, no_wait),
    "no fence between encoders": (many_batches, Misuse, no_fence),
    "memory goes before the batch is done": (freed_at_once, Misuse, nothing_held),
    "pointers to buffers that nobody told of": (biased_product, Misuse, resources_untold),
}


@pytest.mark.parametrize("name", BACKEND)
def test_a_mutant_of_the_backend_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, error, plant = BACKEND[name]
    with Executor() as executor:
        run(executor)
    plant(monkeypatch)
    executor = Executor()
    with pytest.raises(error):
        run(executor)
