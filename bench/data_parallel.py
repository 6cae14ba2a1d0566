"""The step of DistributedDataParallel on two processes: the device, and PyTorch's CPU beside it.

    python bench/data_parallel.py --layers 4 --width 256

Each process has one thread. Turns of both devices alternate, since other programs disturb both alike; figures are
medians over all turns but the first two. `staged` is how many bytes went to the host for collectives, in gradients.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WARM = 2
DEVICES = ("cpu", "hologram")


def model(layers: int, width: int) -> torch.nn.Module:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    return torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def steps(given: argparse.Namespace, device: str, alone: bool) -> Any:
    """A function that makes a step, and says how long it took."""
    own = model(given.layers, given.width).to(device)
    trained: Any = own if alone else DistributedDataParallel(own, bucket_cap_mb=given.bucket)
    if given.compile:
        trained = torch.compile(trained)
    optimiser = torch.optim.SGD(own.parameters(), lr=1e-3)
    x = torch.randn(given.batch, given.length, given.width).to(device)

    def step() -> float:
        began = time.perf_counter()
        optimiser.zero_grad()
        trained(x).square().mean().backward()
        optimiser.step()
        next(own.parameters()).detach().flatten()[0].item()
        return time.perf_counter() - began

    return step


def work(rank: int, given: argparse.Namespace, folder: str) -> None:
    os.environ |= {"HOLOGRAM_BACKEND": given.backend, "HOLOGRAM_CPU_THREADS": "1"}
    torch.set_num_threads(1)
    import hologram_torch  # noqa: F401  (in the process that was started)

    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=2)
    made = {(device, alone): steps(given, device, alone) for device in DEVICES for alone in (True, False)}
    times: dict[Any, list[float]] = {key: [] for key in made}
    for _ in range(given.turns + WARM):
        for key, step in made.items():
            dist.barrier()
            times[key].append(step())
    if rank == 0:
        found = {key: 1000 * statistics.median(each[WARM:]) for key, each in times.items()}
        for device in DEVICES:
            alone, together = found[device, True], found[device, False]
            print(f"{device:9s} alone {alone:7.1f} ms   together {together:7.1f} ms   {together / alone:.2f}")
        print(f"hologram to cpu: together {found['hologram', False] / found['cpu', False]:.2f}")
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("layers", 4), ("width", 256), ("batch", 4), ("length", 64), ("turns", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--bucket", type=float, default=None, help="bucket_cap_mb; PyTorch's own by default")
    parser.add_argument("--backend", default="cpu", help="HOLOGRAM_BACKEND")
    parser.add_argument("--compile", action="store_true", help="torch.compile on both")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, args=(parser.parse_args(), str(Path(folder))), nprocs=2)


if __name__ == "__main__":
    main()
