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


@pytest.mark.parametrize("size", [1, 5000, 40_000])
def test_reduction(executor: hg.Executor, size: int) -> None:
    x = RNG.random(size, np.float32)
    assert example("reduction").add_up(executor, x) == pytest.approx(np.sum(x, dtype=np.float64), rel=1e-6)


def test_lattice_boltzmann(executor: hg.Executor) -> None:
    module = example("lattice_boltzmann")
    planes, post = module.start(20, 40, 0.1)
    planes *= 1 + 0.1 * RNG.random(planes.shape, np.float32)
    want = planes.astype(np.float64)
    for _ in range(3):
        want = lattice_boltzmann(module, want, post, 0.1, 1.8)
    assert post.any()
    assert np.allclose(module.flow(executor, planes, post, 3, 0.1, 1.8), want, atol=1e-5)


def lattice_boltzmann(module: Any, f: np.ndarray, post: np.ndarray, wind: float, rate: float) -> np.ndarray:
    """One step in NumPy: stream, collide, turn back at the post, blow from the west."""
    ways = np.stack([module.EAST, module.SOUTH], axis=1).astype(float)
    weights = np.array(module.WEIGHTS)[:, None, None]

    def at_rest(density: Any, east: Any, south: Any) -> Any:
        along = ways[:, 0, None, None] * east + ways[:, 1, None, None] * south
        return weights * density * (1 + 3 * along + 4.5 * along**2 - 1.5 * (east**2 + south**2))

    padded = np.pad(f, ((0, 0), (1, 1), (0, 0)), mode="wrap")
    padded = np.pad(padded, ((0, 0), (0, 0), (1, 1)), mode="edge")
    height, width = post.shape
    came = np.stack(
        [
            padded[k, 1 - int(s) : 1 - int(s) + height, 1 - int(e) : 1 - int(e) + width]
            for k, (e, s) in enumerate(ways)
        ]
    )
    density = came.sum(0)
    east, south = np.tensordot(ways.T, came, 1) / density
    after = came + rate * (at_rest(density, east, south) - came)
    after = np.where(post[None] != 0, came[list(module.AGAINST)], after)
    after[:, :, 0] = at_rest(1.0, wind, 0.0)[:, :, 0]
    return after


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
    want = np.zeros((3, rows + 1, columns + 1), np.int32)
    for i in range(rows):
        for j in range(columns):
            pair = np.where(texts[:, j] == query[i], module.ALIKE, module.UNLIKE)
            gapped = np.maximum(want[:, i, j + 1], want[:, i + 1, j]) - module.GAP
            want[:, i + 1, j + 1] = np.maximum(np.maximum(want[:, i, j] + pair, gapped), 0)
    found = module.tables(executor, query, texts)
    assert np.array_equal(found, want[:, 1:, 1:])
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
    scores = q.astype(np.float64) @ k.swapaxes(1, 2) / module.WIDTH**0.5
    if causal:
        scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ v
    assert np.allclose(module.attention(executor, q, k, v, causal), want, atol=1e-5)


def test_material_points(executor: hg.Executor) -> None:
    module = example("material_points")
    state = module.drop(200, 16)
    state[1][:] = RNG.normal(size=state[1].shape)
    state[2][:] = RNG.normal(size=state[2].shape)
    want = [x.astype(np.float64) for x in state]
    for _ in range(3):
        want = material_points(module, *want, 16, 1e-3)
    found = tuple(map(executor.tensor, state))
    module.advance(found, executor.zeros((16, 16, 3)), executor.empty((16, 16, 2)), 3, 1e-3)
    for ours, theirs in zip(found, want, strict=True):
        np.testing.assert_allclose(ours.to_numpy(), theirs, rtol=1e-3, atol=1e-3)


def material_points(
    module: Any, x: np.ndarray, v: np.ndarray, shear: np.ndarray, ratio: np.ndarray, n: int, dt: float
) -> list[np.ndarray]:
    """One step in NumPy, all particles at once."""
    base = np.floor(x - 0.5).astype(int)
    off = x - base
    spline = np.stack([0.5 * (1.5 - off) ** 2, 0.75 - (off - 1) ** 2, 0.5 * (off - 0.5) ** 2])
    affine = module.VOLUME * shear.reshape(-1, 2, 2)
    affine += np.eye(2) * (-4 * dt * module.VOLUME * module.STIFFNESS * (ratio - 1))[:, None, None]
    nodes = [
        (base[:, 0] + a, base[:, 1] + b, spline[a, :, 0] * spline[b, :, 1], np.array([a, b]) - off)
        for a in range(3)
        for b in range(3)
    ]
    grid = np.zeros((n, n, 3))
    for i, j, weight, way in nodes:
        momentum = weight[:, None] * (module.VOLUME * v + (affine @ way[:, :, None])[:, :, 0])
        np.add.at(grid, (i, j), np.concatenate([momentum, (weight * module.VOLUME)[:, None]], axis=1))
    flow = np.where(grid[:, :, 2:] > 0, grid[:, :, :2] / np.maximum(grid[:, :, 2:], 1e-30), 0)
    flow[:, :, 1] -= np.where(grid[:, :, 2] > 0, dt * module.GRAVITY, 0)
    for axis in range(2):
        side, at = flow[:, :, axis], np.indices((n, n))[axis]
        side[((at < module.WALL) & (side < 0)) | ((at > n - module.WALL) & (side > 0))] = 0
    v, shear = np.zeros_like(v), np.zeros((len(x), 2, 2))
    for i, j, weight, way in nodes:
        v += weight[:, None] * flow[i, j]
        shear += 4 * weight[:, None, None] * flow[i, j][:, :, None] * way[:, None, :]
    return [x + dt * v, v, shear.reshape(-1, 4), ratio * (1 + dt * np.trace(shear, axis1=1, axis2=2))]


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
