"""The kernels of examples/kernels compute what NumPy computes, on every backend, and run as scripts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.demo import gallery

FOLDER = Path(__file__).parents[2] / "examples" / "kernels"
FILES = sorted(FOLDER.glob("*.py"))
RNG = np.random.default_rng(0)


def example(name: str) -> Any:
    return gallery.load(FOLDER / f"{name}.py")


def test_life(executor: hg.Executor) -> None:
    world = (RNG.random((33, 20)) < 0.3).astype(np.uint8)
    want = world
    for _ in range(5):
        around = sum(np.roll(want, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)) - want
        want = ((around == 3) | ((around == 2) & (want == 1))).astype(np.uint8)
    assert want.any()
    assert np.array_equal(example("life").play(executor, world, 5), want)


def test_heat(executor: hg.Executor) -> None:
    plate = RNG.random((17, 30), np.float32)
    want = plate.astype(np.float64)
    for _ in range(4):
        after = np.zeros_like(want)
        around = want[:-2, 1:-1] + want[2:, 1:-1] + want[1:-1, :-2] + want[1:-1, 2:]
        after[1:-1, 1:-1] = want[1:-1, 1:-1] + 0.2 * (around - 4 * want[1:-1, 1:-1])
        want = after
    assert np.allclose(example("heat").cool(executor, plate, 4), want, atol=1e-6)


def test_where_from(executor: hg.Executor) -> None:
    module = example("where_from")
    truth = np.zeros((9, 12), np.float32)
    truth[3:5, 2:5] = 1.0
    end = module.carried(executor.tensor(truth), 3).to_numpy()
    guess, errors = module.found(executor, end, 3, 40)
    assert errors[-1] < 0.02 * errors[0]
    assert np.abs(guess - truth).mean() < 0.2 * truth.mean()


def test_ray_marcher(executor: hg.Executor) -> None:
    module = example("ray_marcher")
    drawn = module.draw(executor, 20, 30)
    beside = np.zeros((20, 30), np.float32)
    module.picture.python[20, 30](beside)
    off = np.abs(drawn - beside) > 2e-3  # where a ray grazes a sphere, the last bit decides
    assert off.mean() < 0.02
    assert drawn.min() == 0
    assert drawn.max() > 0.9


@pytest.mark.parametrize("bodies", [1, 64, 150])
def test_nbody(executor: hg.Executor, bodies: int) -> None:
    module = example("nbody")
    places, mass = RNG.normal(size=(bodies, 3)).astype(np.float32), RNG.random(bodies, np.float32)
    to = (places[None] - places[:, None]).astype(np.float64)
    squares = (to**2).sum(-1) + module.SOFTENING
    want = (to * (mass / squares**1.5)[..., None]).sum(1)
    assert np.allclose(module.accelerations(executor, places, mass), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [1, 5, 20_000])
def test_histogram(executor: hg.Executor, size: int) -> None:
    x = np.round(RNG.normal(size=size) * 64).astype(np.float32) / 64
    want, _ = np.histogram(x[(x >= -2) & (x < 2)], bins=64, range=(-2, 2))
    assert np.array_equal(example("histogram").histogram(executor, x, -2.0, 2.0), want)


@pytest.mark.parametrize("sizes", [(16, 16, 16), (33, 20, 47)])
def test_tiled_product(executor: hg.Executor, sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    a, b = RNG.random((rows, inner), np.float32), RNG.random((inner, columns), np.float32)
    assert np.allclose(example("tiled_product").multiply(executor, a, b), a @ b, rtol=1e-5)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_runs_as_a_script(path: Path) -> None:
    said = subprocess.run(
        [sys.executable, path, "cpu"], capture_output=True, text=True, timeout=120, check=False
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.strip()
