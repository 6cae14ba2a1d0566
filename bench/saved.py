"""From a new process to a first result: a saved program beside the function, or the module, that it was saved from.

    python bench/saved.py [--backend webgpu] [--runs 5]

Each row is run in processes of its own, in turns, with kernels kept on disk from a run before. `start to result` is the
process's whole time, `call to result` begins where what is needed (hologram, an executor, PyTorch, weights) is there.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

WIDTH, LAYERS = 256, 8


def step(ex: Any) -> tuple[Any, Any]:
    """A training step's gradient through 8 layers, and its argument."""
    import hologram as hg

    rng = np.random.default_rng(0)
    weights = [ex.tensor(rng.standard_normal((WIDTH, WIDTH), dtype=np.float32)) for _ in range(LAYERS)]

    def loss(x: Any) -> Any:
        for w in weights:
            x = hg.layer_norm(x + hg.gelu(x @ w), normalized_shape=(WIDTH,))
        return hg.mean(hg.softmax(x, dim=-1) ** 2)

    return hg.jit(hg.value_and_grad(loss)), ex.tensor(rng.standard_normal((32, WIDTH), dtype=np.float32))


def encoder() -> tuple[Any, Any]:
    """4 layers of PyTorch's encoder, and their argument."""
    import torch

    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).eval(), torch.randn(2, 32, 128)


def saved(row: str, backend: str, folder: Path) -> float:
    import hologram as hg

    with hg.Executor(backend=backend) as ex:
        shape = (32, WIDTH) if row == "function" else (2, 32, 128)
        x = ex.ones(shape)
        begun = time.perf_counter()
        result = hg.load(folder / f"{row}.holo", device=ex)(x)
        (result[0] if isinstance(result, tuple) else result).to_numpy()
        return time.perf_counter() - begun


def traced(row: str, backend: str, folder: Path) -> float:
    import hologram as hg

    if row == "function":
        with hg.Executor(backend=backend) as ex:
            function, x = step(ex)
            begun = time.perf_counter()
            function(x)[0].to_numpy()
            return time.perf_counter() - begun
    import torch

    module, x = encoder()
    module, x = module.to("hologram"), x.to("hologram")
    begun = time.perf_counter()
    with torch.no_grad():
        torch.compile(module, backend="hologram")(x).cpu()
    return time.perf_counter() - begun


def written(row: str, backend: str, folder: Path) -> float:
    import hologram as hg

    if row == "function":
        with hg.Executor(backend=backend) as ex:
            function, x = step(ex)
            hg.save_program(folder / f"{row}.holo", function, x)
    else:
        import hologram_torch

        hologram_torch.save_compiled(folder / f"{row}.holo", *encoder())
    return 0.0


WAYS = {"written": written, "saved": saved, "traced": traced}


def once(way: str, row: str, backend: str, folder: Path) -> tuple[float, float]:
    """Seconds of a process, and of what it counts."""
    begun = time.perf_counter()
    command = [
        sys.executable,
        __file__,
        "--way",
        way,
        "--row",
        row,
        "--backend",
        backend,
        "--folder",
        str(folder),
    ]
    run = subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ | {"HOLOGRAM_BACKEND": backend}
    )
    return time.perf_counter() - begun, float(run.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--row", default="function")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.way:
        print(WAYS[given.way](given.row, given.backend, given.folder))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for row in ("function", "module"):
            once("written", row, given.backend, folder)
            ways = ("traced", "saved")
            for way in ways:
                once(way, row, given.backend, folder)
            times = [[once(way, row, given.backend, folder) for way in ways] for _ in range(given.runs)]
            for way, found in zip(ways, zip(*times, strict=True), strict=True):
                whole, counted = (statistics.median(x) for x in zip(*found, strict=True))
                print(f"{row:9} {way:7} start to result {whole:6.2f} s, call to result {counted:6.2f} s")


if __name__ == "__main__":
    main()
