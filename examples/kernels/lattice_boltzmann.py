"""Wind behind a post: the lattice Boltzmann method, nine numbers a place that stream to its neighbours and collide.

python examples/kernels/lattice_boltzmann.py --backend cpu writes lattice_boltzmann.png: which way the air turns.
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from pathlib import Path

import numpy as np

import hologram as hg
from hologram.demo.colours import COLD_TO_HOT, coloured, enlarged
from hologram.demo.gallery import run

# The nine directions of D2Q9 (Qian, d'Humieres and Lallemand 1992) and their weights. Direction k runs against
# AGAINST[k].
EAST = (0, 1, 0, -1, 0, 1, -1, -1, 1)
SOUTH = (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHTS = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)
AGAINST = (0, 3, 4, 1, 2, 7, 8, 5, 6)


@hg.func
def at_rest(k, density, east, south):
    """What goes in a direction, once air of such a density and speed has come to rest."""
    along = EAST[k] * east + SOUTH[k] * south
    return WEIGHTS[k] * density * (1.0 + along * (3.0 + 4.5 * along) - 1.5 * (east * east + south * south))


@hg.kernel
def step(
    now: hg.Array[hg.f32, 3], after: hg.Array[hg.f32, 3], post: hg.Array[hg.u8, 2], wind: hg.f32, rate: hg.f32
):
    """A step of nine planes of numbers. Wind comes from the west; north and south meet."""
    i, j = hg.index()
    height, width = post.shape
    if j == 0:
        for k in hg.static(range(9)):
            after[k, i, j] = at_rest(k, 1.0, wind, 0.0)
        return
    rows = (i + 1 if i < height - 1 else 0, i, i - 1 if i > 0 else height - 1)
    columns = (min(j + 1, width - 1), j, j - 1)
    came = hg.local(9, hg.f32)
    density, east, south = 0.0, 0.0, 0.0
    for k in hg.static(range(9)):
        came[k] = now[k, rows[SOUTH[k] + 1], columns[EAST[k] + 1]]
        density += came[k]
        east += EAST[k] * came[k]
        south += SOUTH[k] * came[k]
    east, south = east / density, south / density
    for k in hg.static(range(9)):
        if post[i, j] != 0:
            after[k, i, j] = came[AGAINST[k]]
        else:
            after[k, i, j] = came[k] + rate * (at_rest(k, density, east, south) - came[k])


def start(height: int, width: int, wind: float) -> tuple[np.ndarray, np.ndarray]:
    """Air that moves everywhere alike, and a post a little off the middle."""
    weights, east = np.array(WEIGHTS, np.float32), np.array(EAST, np.float32)
    each = weights * (1 + 3 * east * wind + 4.5 * (east * wind) ** 2 - 1.5 * wind**2)
    i, j = np.indices((height, width))
    post = (i - height * 0.48) ** 2 + (j - width * 0.2) ** 2 < (height / 9) ** 2
    return np.broadcast_to(each[:, None, None], (9, height, width)).astype(np.float32), post.astype(np.uint8)


def flow(
    executor: hg.Executor, planes: np.ndarray, post: np.ndarray, steps: int, wind: float, rate: float
) -> np.ndarray:
    """The planes some steps later."""
    now, after, solid = executor.tensor(planes), executor.empty(planes.shape), executor.tensor(post)
    for _ in range(steps):
        step[post.shape](now, after, solid, wind, rate)
        now, after = after, now
    return now.to_numpy()


def main(steps: int = 6000, output: Path = Path("lattice_boltzmann.png")) -> None:
    planes, post = start(90, 240, 0.1)
    found = flow(hg.default_executor(), planes, post, steps, 0.1, 1.9)
    density = found.sum(0)
    east, south = (
        (np.array(way, np.float32)[:, None, None] * found).sum(0) / density for way in (EAST, SOUTH)
    )
    turning = np.gradient(south, axis=1) - np.gradient(east, axis=0)
    colours = coloured(turning, -0.03, 0.03, COLD_TO_HOT)
    colours[post != 0] = (34, 36, 41)
    enlarged(colours, 480).save(output)
    print(f"{output}: the air moves by {np.hypot(east, south).max():.3f} of a place in a step at most")


if __name__ == "__main__":
    run(main)
