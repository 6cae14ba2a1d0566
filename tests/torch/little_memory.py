"""A process whose memory is limited more and less: prints where a training step runs out of it, and goes on.

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
compiled, fused = (word == "True" for word in sys.argv[1:])

torch.hologram.set_backend("cpu")  # pyright: ignore[reportAttributeAccessIssue]
model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Softmax(-1)) for _ in range(4)])
model.to("hologram")
run: Any = torch.compile(model, backend="hologram") if compiled else model
x = torch.ones(ROWS, WIDTH, device="hologram")


def fresh() -> Any:
    return torch.optim.AdamW(model.parameters(), fused=fused)


def step(optimiser: Any) -> str:
    """Where a step ends: in a pass that ran out of memory, or at the end."""
    phase = "forward"
    try:
        loss = run(x).square().mean()
        phase = "backward"
        loss.backward()
        phase = "step"
        optimiser.step()
    except torch.OutOfMemoryError as error:
        return phase if "hologram" in str(error) else str(error)
    finally:
        model.zero_grad()
    return "end"


def limited(extra: int) -> str:
    torch.hologram.empty_cache()  # pyright: ignore[reportAttributeAccessIssue]
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + extra, resource.RLIM_INFINITY))
    try:
        return step(fresh())
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


assert step(fresh()) == "end"  # what is compiled, is
before = [p.detach().cpu() for p in model.parameters()]
for megabytes in range(16, 400, 16):
    where = limited(megabytes << 20)
    print(where)
    if where == "end":
        break
    assert all(torch.equal(p.detach().cpu(), b) for p, b in zip(model.parameters(), before, strict=True))
assert step(fresh()) == "end"
