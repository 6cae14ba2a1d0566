"""hologram's kernels: those of examples/kernels, as they stand there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hologram as hg
from hologram.benchmark.contenders.ours import waited
from hologram.benchmark.jobs import Job
from hologram.benchmark.kernels.declared import MOMENT, RATE, STEPS, WARMTH, WIND, grid_of, tiles
from hologram.benchmark.models.declared import Arrays
from hologram.benchmark.works import Work
from hologram.demo import gallery

EXAMPLES = Path(__file__).parents[2] / "examples" / "kernels"
Made = tuple[Callable[[], object], Callable[[], np.ndarray]]  # what a call does, and what came of it


def in_turns(ex: hg.Executor, array: np.ndarray, step: Callable[[Any, Any], object]) -> Made:
    """Steps from one array into another and back; the result is that of the first call, from the given array."""
    now, after = ex.tensor(array), ex.tensor(array)

    def call() -> None:
        for _ in range(STEPS // 2):
            step(now, after)
            step(after, now)

    def result() -> np.ndarray:
        now[...] = ex.tensor(array)
        call()
        return now.to_numpy()

    return call, result


def life(ex: hg.Executor, own: Any, cells: np.ndarray) -> Made:
    return in_turns(ex, cells, own.generation[cells.shape])


def heat(ex: hg.Executor, own: Any, plate: np.ndarray) -> Made:
    launch = own.step[plate.shape]
    return in_turns(ex, plate, lambda now, after: launch(now, after, WARMTH))


def lattice_boltzmann(ex: hg.Executor, own: Any, planes: np.ndarray, post: np.ndarray) -> Made:
    launch, solid = own.step[post.shape], ex.tensor(post)
    return in_turns(ex, planes, lambda now, after: launch(now, after, solid, WIND, RATE))


def ray_marcher(ex: hg.Executor, own: Any, out: np.ndarray) -> Made:
    drawn = ex.tensor(out)
    return lambda: own.picture[out.shape](drawn), lambda: tiles(drawn.to_numpy())


def nbody(ex: hg.Executor, own: Any, places: np.ndarray, mass: np.ndarray) -> Made:
    x, m, out = ex.tensor(places), ex.tensor(mass), ex.empty(places.shape)
    launch = own.pull[-(-mass.size // own.TILE) * own.TILE]
    return lambda: launch(x, m, out), out.to_numpy


def material_points(ex: hg.Executor, own: Any, *given: np.ndarray) -> Made:
    n = grid_of(len(given[0]))
    state, grid, flow = tuple(map(ex.tensor, given)), ex.zeros((n, n, 3)), ex.empty((n, n, 2))

    def result() -> np.ndarray:
        for tensor, array in zip(state, given, strict=True):
            tensor[...] = ex.tensor(array)
        call()
        return state[0].to_numpy()

    def call() -> None:
        own.advance(state, grid, flow, STEPS, MOMENT)

    return call, result


def histogram(ex: hg.Executor, own: Any, x: np.ndarray) -> Made:
    numbers, counts = ex.tensor(x), ex.zeros(own.BINS, hg.u32)
    launch = own.count[own.THREADS * 32]

    def call() -> None:
        counts[...] = 0
        launch(numbers, counts, -4.0, 4.0)

    return call, counts.to_numpy


def reduction(ex: hg.Executor, own: Any, x: np.ndarray) -> Made:
    numbers, out = ex.tensor(x), ex.zeros(1)
    launch = own.total[own.THREADS * own.GROUPS]

    def call() -> None:
        out[...] = 0.0
        launch(numbers, out)

    return call, out.to_numpy


def sparse_product(ex: hg.Executor, own: Any, starts: np.ndarray, *given: np.ndarray) -> Made:
    tensors, out = tuple(map(ex.tensor, (starts, *given))), ex.empty(starts.size - 1)
    launch = own.multiply[starts.size - 1]
    return lambda: launch(*tensors, out), out.to_numpy


def smith_waterman(ex: hg.Executor, own: Any, query: np.ndarray, texts: np.ndarray) -> Made:
    a, b = ex.tensor(query), ex.tensor(texts)
    out = ex.empty((len(texts), query.size, texts.shape[1]), hg.i32)
    launch = own.fill[len(texts) * own.ROWS]
    return lambda: launch(a, b, out), out.to_numpy


def tiled_product(ex: hg.Executor, own: Any, a: np.ndarray, b: np.ndarray) -> Made:
    x, y, out = ex.tensor(a), ex.tensor(b), ex.empty((len(a), b.shape[1]))
    launch = own.product[tuple(-(-n // own.TILE) * own.TILE for n in out.shape)]
    return lambda: launch(x, y, out), out.to_numpy


def kernel_attention(ex: hg.Executor, own: Any, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Made:
    given, out = tuple(map(ex.tensor, (q, k, v))), ex.empty(q.shape)
    launch = own.attend[q.shape[0] * -(-q.shape[1] // own.TILE) * own.TILE]
    return lambda: launch(*given, out, own.WIDTH**-0.5, False), out.to_numpy


def where_from(ex: hg.Executor, own: Any, start: np.ndarray) -> Made:
    gradient = hg.jit(hg.grad(lambda u: hg.sum(own.carried(u, STEPS) ** 2)))
    u = ex.tensor(start)
    return lambda: gradient(u), lambda: gradient(u).to_numpy()


MAKERS: dict[str, Callable[..., Made]] = {
    made.__name__: made
    for made in (
        life, heat, lattice_boltzmann, ray_marcher, nbody, material_points, histogram, reduction, sparse_product,
        smith_waterman, tiled_product, kernel_attention, where_from,
    )
}  # fmt: skip


class Kernels:
    def __init__(self, executor: hg.Executor) -> None:
        self.executor, self.device = executor, executor.device.info.name

    def prepare(self, work: Work, inputs: Arrays) -> Job | None:
        make = MAKERS.get(work.name)
        if make is None:
            return None
        own = gallery.load(EXAMPLES / f"{work.name.removeprefix('kernel_')}.py")
        call, result = make(self.executor, own, *inputs.values())
        return Job(waited(self.executor, call), result)


def open_contender(name: str, where: str) -> Kernels:
    return Kernels(hg.Executor(where))
