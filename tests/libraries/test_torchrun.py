"""torchrun: a worker that is killed, all of them started anew, and resumed from a checkpoint as if nothing had been."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

LIBRARY = "torch"
ROOT = Path(__file__).parents[2]

SCRIPT = """
import os, signal, sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
folder, dies = sys.argv[1], sys.argv[2] == "dies"
dist.init_process_group()
device = torch.accelerator.current_accelerator()
assert device.type == "hologram", device
rank, first = dist.get_rank(), 0
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)).double().to(device)
trained = DistributedDataParallel(model)
optimiser = torch.optim.AdamW(model.parameters(), lr=0.1)
kept = f"{folder}/checkpoint.pt"
if os.path.exists(kept):
    state = torch.load(kept, map_location=device, weights_only=True)
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    first = state["step"]
for step in range(first, 6):
    if dies and first == 0 and step == 3 and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    generator = torch.Generator().manual_seed(100 * step + rank)
    x = torch.randn(4, 6, generator=generator, dtype=torch.float64).to(device)
    optimiser.zero_grad()
    trained(x).square().mean().backward()
    optimiser.step()
    if rank == 0:
        state = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step + 1}
        torch.save(state, kept + ".new")
        os.replace(kept + ".new", kept)
    dist.barrier()
if rank == 0:
    torch.save({"first": first, **{n: p.cpu() for n, p in model.state_dict().items()}}, f"{folder}/trained.pt")
dist.destroy_process_group()
"""


def trained(folder: Path, dies: str) -> dict[str, Any]:
    folder.mkdir()
    script = folder / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command += ["--max_restarts", "1", str(script), str(folder), dies]
    environment = {**os.environ, "HOLOGRAM_CPU_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return torch.load(folder / "trained.pt", weights_only=True)


def test_a_killed_worker_is_made_good(tmp_path: Path) -> None:
    whole, resumed = trained(tmp_path / "whole", "lives"), trained(tmp_path / "resumed", "dies")
    assert (whole.pop("first"), resumed.pop("first")) == (0, 3)
    for name, parameter in whole.items():
        assert torch.equal(resumed[name], parameter), name
