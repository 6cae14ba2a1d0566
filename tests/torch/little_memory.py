"""A process whose memory is limited ahead of a pass: prints where a training step runs out of it, and goes on.

Arguments: whether the model is compiled, and the optimiser is fused. Run by test_limits.py.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

import hologram_torch  # noqa: F401

WIDTH = 512
ROWS = 4096  # 8 MiB an activation
LITTLE = 4  # MiB
compiled, fused = (word == "True" for word in sys.argv[1:])

torch.hologram.set_backend("cpu")  # pyright: ignore[reportAttributeAccessIssue]
model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Softmax(-1)) for _ in range(4)])
model.to("hologram")
run: Any = torch.compile(model, backend="hologram") if compiled else model
x = torch.ones(ROWS, WIDTH, device="hologram")


def fresh() -> Any:
    return torch.optim.AdamW(model.parameters(), fused=fused)


def step(optimiser: Any, limited: str = "") -> str:
    """Where a step ends: in a pass that ran out of memory, or at the end."""
    phase = "forward"
    try:
        limit(limited == phase)
        loss = run(x).square().mean()
        phase = "backward"
        limit(limited == phase)
        loss.backward()
        limit(False)
        phase = "step"
        optimiser.step()
    except torch.OutOfMemoryError as error:
        return phase if "hologram" in str(error) else str(error)
    finally:
        limit(False)
        model.zero_grad()
    return "end"


def limit(little: bool) -> None:
    """Leaves less than an activation needs, or takes the limit off."""
    if not little:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return
    torch.hologram.empty_cache()  # pyright: ignore[reportAttributeAccessIssue]
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (LITTLE << 20), resource.RLIM_INFINITY))


assert step(fresh()) == "end"  # what is compiled, is
before = [p.detach().cpu() for p in model.parameters()]
for phase in ("forward", "backward", "forward"):
    print(step(fresh(), phase))
    assert all(torch.equal(p.detach().cpu(), b) for p, b in zip(model.parameters(), before, strict=True))
assert step(fresh()) == "end"
