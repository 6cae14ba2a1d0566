"""What canonical form costs, and what recognition gains.

Processor time for the form of every program that the operations plan for their samples; then naive programs, as they
are written and as what they are recognised as.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

import hologram as hg
from hologram.atlas.program import Program
from hologram.benchmark.suites import Goal, Result, Suite, own, result
from hologram.benchmark.timing import Pace
from hologram.compiler import passes
from hologram.compiler.pipeline import run
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
                operands, attributes = operation.bind(sample.operands, sample.attributes)
                inputs = [
                    Layout.contiguous(dtype(o.dtype), o.shape) if isinstance(o, np.ndarray) else o
                    for o in operands
                ]
                plan = operation.plan(inputs, operation.infer(inputs, attributes), attributes, Target(limits))
                yield from (s.kernel for s in plan.steps if isinstance(s.kernel, Program))


def form(limits: Limits) -> Iterator[Result]:
    """A round of the pipeline over all programs."""
    times, lengths = [], []
    for program in dict.fromkeys(planned(limits)):
        start = time.process_time()
        run(passes.Stage.FORM, program, passes.Goal())
        times.append(time.process_time() - start)
        lengths.append(sum(1 for _ in program.body.walk()))
    size = f"{len(times)} programs of up to {max(lengths)}"
    costs = {"in the middle": np.median(times), "99 of 100": np.percentile(times, 99), "at most": max(times)}
    costs["an instruction"] = sum(times) / sum(lengths)
    for row, spent in costs.items():
        yield result(f"canonical form, {row}", size, {"hologram": [float(spent)]}, {}, Goal(), "hologram")


def own_rows(backend: str, pace: Pace) -> Iterator[Result]:
    rng = np.random.default_rng(0)
    with hg.Executor(backend) as executor:
        yield from form(executor.limits)
        for name, spelling, problem, sizes in NAIVE:
            program, grid = spelling.write(f32, problem), spelling.grid(problem)
            buffers = [executor.allocate(n).from_numpy(rng.normal(size=n).astype(np.float32)) for n in sizes]
            named = dict(zip((b.name for b in program.buffers), buffers, strict=True))
            naive = executor.bound.call(Plan((Step(program, tuple(range(len(buffers))), (), grid),)), buffers)
            ways = {
                "hologram": lambda p=program, n=named, g=grid: (
                    executor.run(p, n, lanes=g),
                    executor.synchronize(),
                ),
                "as written": lambda call=naive: (call(), executor.synchronize()),
            }
            yield own(f"{name}, recognised", "", ways, pace)


SUITES = (Suite("compiler", "", own_rows=own_rows),)
