"""How many results of random programs differ in a bit from the CPU's, on reproducible executors.

    python -m tests.reproduced --programs 1000 --on webgpu:llvmpipe --on webgpu:SwiftShader:40

A device is a backend's name, behind a colon a part of the device's own, and behind another the most instructions that
a program may have there, with what stands for functions: some compilers need minutes for more. `cuda-emulated` and
`metal-emulated` are backends here. Exits with 1 where one differs, and prints it: the same seed gives it again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings

import hologram as hg
from hologram.compiler.scheduling.reproducible import strict
from hologram.foundation import dtypes
from tests.backends import emulated
from tests.programs import Case, programs

TOGETHER = 100  # programs of a seed
DTYPES = tuple(
    d for d in dtypes.COMPUTED if d is not dtypes.f64
)  # which devices refuse that flush denormal numbers


class Compared:
    """A device that is held against the CPU, and how many programs ran on it."""

    def __init__(self, name: str) -> None:
        backend, device, most = [*name.split(":"), "", ""][:3]
        self.executor = hg.Executor(backend, device=device or None, reproducible=True)
        self.name, self.most, self.ran = (
            f"{backend} {self.executor.device.info.name}",
            int(most or 1 << 30),
            0,
        )

    def takes(self, instructions: int) -> bool:
        return instructions <= self.most


def results(executor: hg.Executor, case: Case) -> dict[str, np.ndarray]:
    """The bytes of a case's buffers after its program."""
    buffers = {n: executor.allocate(a.shape, a.dtype).from_numpy(a) for n, a in case.buffers.items()}
    executor.run(case.program, buffers, lanes=case.grid, **case.scalars)
    found = {n: np.ascontiguousarray(b.to_numpy()).view(np.uint8) for n, b in buffers.items()}
    for buffer in buffers.values():
        buffer.free()
    return found


def differing(case: Case, wanted: dict[str, np.ndarray], found: dict[str, np.ndarray]) -> str:
    """Where results differ; nothing where none does."""
    for name, host in wanted.items():
        if not np.array_equal(host, found[name]):
            dtype = case.buffers[name].dtype
            places = np.flatnonzero((host != found[name]).reshape(-1, dtype.itemsize).any(axis=1))
            pairs = [(k, host.view(dtype)[k], found[name].view(dtype)[k]) for k in places[:4]]
            return f"{name} at (place, CPU's, its) {pairs}"
    return ""


def compare(first: int, count: int, others: Sequence[Compared], wrong: Counter[str]) -> None:
    """Runs the programs of a seed on all devices."""
    cpu = hg.Executor("cpu", reproducible=True)

    @seed(first)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    @given(case=programs(DTYPES))
    def each(case: Case) -> None:
        wanted = results(cpu, case)
        instructions = sum(1 for _ in strict(case.program).body.walk())
        for other in others:
            if other.takes(instructions):
                if said := differing(case, wanted, results(other.executor, case)):
                    wrong[other.name] += 1
                    print(f"seed {first}, {other.name}: {said}\n{case.program}\n{case.scalars}", flush=True)
                other.ran += 1

    each()
    cpu.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument(
        "--seed", type=int, default=0, help=f"of the first {TOGETHER}; each further one is 1 more"
    )
    parser.add_argument("--on", action="append", help="a device to compare with the CPU")
    arguments = parser.parse_args()
    emulated.install()
    others, wrong = [Compared(name) for name in arguments.on or ["webgpu"]], Counter[str]()
    for k, done in enumerate(range(0, arguments.programs, TOGETHER)):
        began = time.perf_counter()
        compare(arguments.seed + k, min(TOGETHER, arguments.programs - done), others, wrong)
        ran = "; ".join(f"{o.name} {o.ran}, {wrong[o.name]} differ" for o in others)
        print(f"seed {arguments.seed + k}, {time.perf_counter() - began:.0f} s: {ran}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
