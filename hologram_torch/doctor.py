"""Whether this PyTorch and the device fit: what `hologram doctor --torch` runs, in a process of its own.

Some reaches are into tables of C++, and one that does not fit may end the process: so the doctor waits beside it.
`python -m hologram_torch.doctor` prints one line of JSON.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch

import hologram_torch  # noqa: F401  which makes the device known
from hologram_torch.reach import REACHES
from hologram_torch.requirement import LEAST, TESTED

ROWS, FEATURES, CLASSES = 32, 16, 4
STEPS = 3
TOLERANCE = 1e-4  # of a loss, relative to the host's


def trained(device: str, compiles: bool) -> float:
    """The loss of a small network after some steps of training on a device."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, FEATURES, generator=generator)
    target = torch.randint(CLASSES, (ROWS,), generator=generator)
    model = copy.deepcopy(network()).to(device)
    run = torch.compile(model, backend="hologram") if compiles else model
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loss = torch.zeros(())
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(run(x.to(device)), target.to(device))
        loss.backward()
        optimiser.step()
    return loss.item()


def network() -> torch.nn.Module:
    """The same weights at each call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = torch.nn.Linear(FEATURES, ROWS), torch.nn.GELU(), torch.nn.Linear(ROWS, CLASSES)
        return torch.nn.Sequential(*layers)


def tried(name: str, run: Callable[[], float], wanted: float) -> dict[str, Any]:
    """A trial: its name, how many seconds it took, and what was wrong with it, if anything."""
    start, problem = time.perf_counter(), ""
    try:
        loss = run()
        if not abs(loss - wanted) <= TOLERANCE * abs(wanted):
            problem = f"the loss is {loss:.6g}, on PyTorch's CPU it is {wanted:.6g}"
    except Exception as error:  # noqa: BLE001  whatever is wrong, the doctor reports it and goes on
        problem = f"{type(error).__name__}: {error}"
    return {"name": name, "seconds": time.perf_counter() - start, "problem": problem}


def report() -> dict[str, Any]:
    """Trains on the device, and tells the results and the state of each private part."""
    wanted = trained("cpu", compiles=False)
    trials = [
        tried("a training step", lambda: trained("hologram", compiles=False), wanted),
        tried("a compiled training step", lambda: trained("hologram", compiles=True), wanted),
    ]
    from hologram_torch.kernels.registry import LACKING  # once the device was used

    return {
        "version": torch.__version__,
        "tested": [LEAST, TESTED],
        "device": torch.hologram.get_device_name(),  # pyright: ignore[reportAttributeAccessIssue]
        "trials": trials,
        "reaches": [asdict(each) for each in REACHES.values()],
        "lacking": sorted(LACKING),
    }


if __name__ == "__main__":
    found = json.dumps(report())
    sys.stdout.write(f"\n{found}\n")
