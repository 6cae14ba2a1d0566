"""Random kernels give the same as Python, by Atlas' evaluator, and on every backend."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.evaluate import evaluate
from hologram.compiler.pipeline import canonical
from tests.kernels.random_kernels import Writer

SIZE = 21
SEEDS = 300


def made(seed: int, folder: Path) -> Any:
    path = folder / f"kernel_{seed}.py"
    path.write_text(Writer(seed).text())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def arguments(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    x = rng.integers(-20, 20, SIZE).astype(np.int32)
    y = (rng.integers(-40, 40, SIZE) / 4).astype(np.float32)
    results = [np.zeros(SIZE, np.int32), np.zeros(SIZE, np.float32), np.zeros(2, np.int32)]
    return [x, y, *results, int(rng.integers(-3, 12)), 0.75]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_kernels(executor: hg.Executor, seed: int, tmp_path: Path) -> None:
    kernel = made(seed, tmp_path)
    given = arguments(seed)
    wanted = [np.copy(x) if isinstance(x, np.ndarray) else x for x in given]
    kernel.python[SIZE](*wanted)
    there = [executor.tensor(x) if isinstance(x, np.ndarray) else x for x in given]
    kernel[SIZE](*there)
    for k in range(2, 5):
        assert np.array_equal(there[k].to_numpy(), wanted[k]), (k, kernel.program())
    program = kernel.program()
    for form in (program, canonical(program)):
        names = [b.name for b in program.buffers]
        buffers = {n: np.copy(given[kernel.compiled(1).buffers[k]]) for k, n in enumerate(names)}
        sizes = {
            f"{n}_size0": x.size
            for n, x in zip(("x", "y", "out", "floats", "counts"), given[:5], strict=True)
        }
        evaluate(form, buffers, {**sizes, "n": given[5], "s": given[6]}, (SIZE,))
        for k, n in enumerate(names):
            assert np.array_equal(buffers[n], wanted[kernel.compiled(1).buffers[k]]), n
