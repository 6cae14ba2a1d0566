"""What canonical form costs, and what recognition gains: `python -m bench.compiler`.

Processor time for the form of every program that the operations plan for their samples; then naive programs, as they
are written and as what they are recognised as.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

import hologram as hg
from hologram.atlas.program import Program
from hologram.compiler.canonical.form import PIPELINE
from hologram.compiler.recognition.templates import PREFIX_SUMS, PRODUCTS, SOFTMAXES, Spelling
from hologram.foundation.dtypes import dtype, f32
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Step, Target
from hologram.opset import OPERATIONS

NAIVE: tuple[tuple[str, Spelling, tuple[int, ...], tuple[int, ...]], ...] = (
    ("product 512 x 512 x 512", PRODUCTS[8], (512, 512, 512), (512 * 512,) * 3),
    ("matrix 2048 x 2048 and vector", PRODUCTS[8], (2048, 2048, 1), (2048 * 2048, 2048, 2048)),
    ("softmax of 512 rows of 512", SOFTMAXES[0], (512, 512), (512 * 512,) * 2),
    ("prefix sum of 60,000", PREFIX_SUMS[0], (1, 60_000), (60_000,) * 2),
    ("prefix sums of 512 rows of 512", PREFIX_SUMS[0], (512, 512), (512 * 512,) * 2),
)


def planned(limits: Limits) -> Iterator[Program]:
    """Every program that an operation plans for a sample."""
    for operation in OPERATIONS.values():
        for kind in operation.dtypes[:2]:
            for sample in operation.samples(np.random.default_rng(0), kind):
                if operation.composite or any(isinstance(o, tuple) for o in sample.operands):
                    continue  # it plans nothing itself, or for lists of tensors
                inputs = [
                    Layout.contiguous(dtype(o.dtype), o.shape) if isinstance(o, np.ndarray) else o
                    for o in sample.operands
                ]
                attributes = {**operation.attributes, **sample.attributes}
                plan = operation.plan(inputs, operation.infer(inputs, attributes), attributes, Target(limits))
                yield from (s.kernel for s in plan.steps if isinstance(s.kernel, Program))


def measure_form(limits: Limits) -> None:
    times, lengths = [], []
    for program in dict.fromkeys(planned(limits)):
        start = time.process_time()
        for step in PIPELINE:
            step(program)
        times.append(1e3 * (time.process_time() - start))
        lengths.append(sum(1 for _ in program.body.walk()))
    middle, high, longest = np.percentile(times, (50, 99, 100))
    print(
        f"{len(times)} programs, {np.median(lengths):.0f} instructions in the middle, {max(lengths)} at most"
    )
    print(f"ms a round: {middle:.2f} in the middle, {high:.2f} for 99 of 100, {longest:.2f} at most; "
          f"{1e3 * sum(times) / sum(lengths):.0f} us an instruction")  # fmt: skip


def measure_recognition(executor: hg.Executor) -> None:
    rng = np.random.default_rng(0)
    for name, spelling, problem, sizes in NAIVE:
        program, grid = spelling.write(f32, problem), spelling.grid(problem)
        buffers = [executor.allocate(n).from_numpy(rng.normal(size=n).astype(np.float32)) for n in sizes]
        named = dict(zip((b.name for b in program.buffers), buffers, strict=True))
        step = Step(program, tuple(range(len(buffers))), (), grid)
        naive = executor.bound.call(Plan((step,)), buffers)
        slow = best(executor, naive)
        fast = best(executor, lambda named=named, p=program, g=grid: executor.run(p, named, lanes=g))
        print(
            f"{executor.backend}: {name}: {slow:.2f} ms as written, {fast:.2f} ms recognised, {slow / fast:.1f}x"
        )


def best(executor: hg.Executor, call: Callable[[], object]) -> float:
    """Milliseconds of the fastest of a few calls."""
    times = []
    for _ in range(6):
        start = time.perf_counter()
        call()
        executor.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return min(times)


def main() -> None:
    with hg.Executor("cpu") as executor:
        measure_form(executor.limits)
        measure_recognition(executor)
    with hg.Executor("webgpu") as executor:
        measure_recognition(executor)


if __name__ == "__main__":
    main()
