"""The kernels of examples/kernels compute what NumPy computes, on every backend, and run as scripts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import hologram as hg
from hologram.benchmark.kernels import references
from hologram.demo import gallery

FOLDER = Path(__file__).parents[2] / "examples" / "kernels"
FILES = sorted(FOLDER.glob("*.py"))
RNG = np.random.default_rng(0)


def example(name: str) -> Any:
    return gallery.load(FOLDER / f"{name}.py")


def test_life(executor: hg.Executor) -> None:
    world = (RNG.random((33, 20)) < 0.3).astype(np.uint8)
    want = references.life(world, 5)
    assert want.any()
    assert np.array_equal(example("life").play(executor, world, 5), want)


def test_heat(executor: hg.Executor) -> None:
    plate = RNG.random((17, 30), np.float32)
    want = references.heat(plate.astype(np.float64), 4, 0.2)
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
    drawn = example("ray_marcher").draw(executor, 20, 30)
    off = (
        np.abs(drawn - references.ray_marcher(20, 30)) > 2e-3
    )  # where a ray grazes a sphere, the last bit decides
    assert off.mean() < 0.02
    assert drawn.min() == 0
    assert drawn.max() > 0.9


@pytest.mark.parametrize("bodies", [1, 64, 150])
def test_nbody(executor: hg.Executor, bodies: int) -> None:
    module = example("nbody")
    places, mass = RNG.normal(size=(bodies, 3)).astype(np.float32), RNG.random(bodies, np.float32)
    want = references.nbody(places.astype(np.float64), mass)
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


@pytest.mark.parametrize("size", [1, 5000, 40_000])
def test_reduction(executor: hg.Executor, size: int) -> None:
    x = RNG.random(size, np.float32)
    assert example("reduction").add_up(executor, x) == pytest.approx(np.sum(x, dtype=np.float64), rel=1e-6)


def test_lattice_boltzmann(executor: hg.Executor) -> None:
    module = example("lattice_boltzmann")
    planes, post = module.start(20, 40, 0.1)
    planes *= 1 + 0.1 * RNG.random(planes.shape, np.float32)
    want = references.lattice_boltzmann(planes.astype(np.float64), post, 3, 0.1, 1.8)
    assert post.any()
    assert np.allclose(module.flow(executor, planes, post, 3, 0.1, 1.8), want, atol=1e-5)


def test_sparse_product(executor: hg.Executor) -> None:
    module = example("sparse_product")
    dense = np.where(RNG.random((30, 20)) < 0.2, RNG.normal(size=(30, 20)), 0.0).astype(np.float32)
    dense[3] = 0.0
    rows, columns = np.nonzero(dense)
    starts = np.searchsorted(rows, np.arange(31)).astype(np.int32)
    x = RNG.random(20, np.float32)
    found = module.product(executor, starts, columns.astype(np.int32), dense[rows, columns], x)
    assert np.allclose(found, dense @ x, atol=1e-5)
    matrix = module.web(50, 400)
    weights = np.zeros((50, 50))
    np.add.at(weights, (np.repeat(np.arange(50), np.diff(matrix[0])), matrix[1]), matrix[2])
    want = np.full(50, 0.02)
    for _ in range(10):
        fresh = module.STAYING * weights @ want
        want = fresh + (1 - fresh.sum()) / 50
    assert np.allclose(module.ranks(executor, matrix, 10)[0], want, atol=1e-6)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (20, 35), (128, 9)])
def test_smith_waterman(executor: hg.Executor, rows: int, columns: int) -> None:
    module = example("smith_waterman")
    query = RNG.integers(4, size=rows, dtype=np.uint8)
    texts = RNG.integers(4, size=(3, columns), dtype=np.uint8)
    texts[0, :1] = query[0]
    found = module.tables(executor, query, texts)
    assert np.array_equal(found, references.smith_waterman(query, texts))
    way = module.way_back(found[0], query, texts[0])
    lines = module.shown(way, query, texts[0])
    points = sum(
        -module.GAP if "-" in pair else module.ALIKE if pair[0] == pair[1] else module.UNLIKE
        for pair in zip(*lines, strict=True)
    )
    assert points == found[0].max() > 0
    with pytest.raises(ValueError, match="1 to 128 letters, got 129"):
        module.tables(executor, np.zeros(129, np.uint8), texts)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 40])
def test_attention(executor: hg.Executor, length: int, causal: bool) -> None:
    module = example("attention")
    q, k, v = (RNG.normal(size=(2, length, module.WIDTH)).astype(np.float32) for _ in range(3))
    want = references.attention(q.astype(np.float64), k, v, causal)
    assert np.allclose(module.attention(executor, q, k, v, causal), want, atol=1e-5)


def test_material_points(executor: hg.Executor) -> None:
    module = example("material_points")
    state = module.drop(200, 16)
    state[1][:] = RNG.normal(size=state[1].shape)
    state[2][:] = RNG.normal(size=state[2].shape)
    want = references.material_points(*(x.astype(np.float64) for x in state), n=16, steps=3, dt=1e-3)
    found = tuple(map(executor.tensor, state))
    module.advance(found, executor.zeros((16, 16, 3)), executor.empty((16, 16, 2)), 3, 1e-3)
    for ours, theirs in zip(found, want, strict=True):
        np.testing.assert_allclose(ours.to_numpy(), theirs, rtol=1e-3, atol=1e-3)


# Options that make each picture quick.
SHORT: dict[str, dict[str, int]] = {
    "attention": {"length": 32},
    "heat": {"steps": 5},
    "histogram": {"size": 2000},
    "lattice_boltzmann": {"steps": 5},
    "life": {"size": 40, "generations": 10},
    "material_points": {"particles": 300, "n": 20, "steps": 20},
    "nbody": {"bodies": 50, "side": 10},
    "ray_marcher": {"width": 40, "height": 20},
    "reduction": {"longest": 13},
    "smith_waterman": {"length": 180, "texts": 3},
    "sparse_product": {"pages": 100, "links": 1000},
    "tiled_product": {"length": 40, "waves": 8},
    "where_from": {"turns": 4},
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_picture_shows_something(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / f"{path.stem}.png"
    with hg.Executor("cpu") as executor, hg.use_executor(executor):
        gallery.load(path).main(**SHORT[path.stem], output=picture)
    assert capsys.readouterr().out.startswith(f"{picture}: ")
    colours = np.asarray(Image.open(picture).convert("RGB")).reshape(-1, 3)
    assert len(np.unique(colours, axis=0)) > 1
    assert (Path(__file__).parents[2] / "docs" / "gallery" / "kernels" / f"{path.stem}.png").exists()


def test_it_runs_as_a_script(tmp_path: Path) -> None:
    picture = tmp_path / "life.png"
    options = ["--backend", "cpu", "--size", "30", "--generations", "3", "--output", picture]
    said = subprocess.run(
        [sys.executable, FOLDER / "life.py", *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert picture.exists()
