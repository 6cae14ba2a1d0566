"""The kernels of the gallery in NumPy, whole arrays at once: what they must compute."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
SOFTENING = 1e-2  # of gravity
# Lattice Boltzmann's nine directions, east and south (D2Q9), their weights, and which runs against each.
EAST = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
SOUTH = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
WEIGHTS = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
AGAINST = [0, 3, 4, 1, 2, 7, 8, 5, 6]
ALIKE, UNLIKE, GAP = 2, -3, 4  # points of an alignment
STIFFNESS, GRAVITY, WALL, VOLUME = 1e5, 40.0, 3, 0.25  # of material points


def life(cells: Array, steps: int) -> Array:
    for _ in range(steps):
        around = sum(np.roll(cells, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)) - cells
        cells = ((around == 3) | ((around == 2) & (cells == 1))).astype(np.uint8)
    return cells


def heat(plate: Array, steps: int, dt: float) -> Array:
    """Its border is cold after the first step."""
    for _ in range(steps):
        after = np.zeros_like(plate)
        around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        after[1:-1, 1:-1] = plate[1:-1, 1:-1] + dt * (around - 4 * plate[1:-1, 1:-1])
        plate = after
    return plate


def lattice_boltzmann(planes: Array, post: Array, steps: int, wind: float, rate: float) -> Array:
    """Streams, collides, turns back at the post, and blows from the west."""
    height, width = post.shape
    for _ in range(steps):
        padded = np.pad(planes, ((0, 0), (1, 1), (0, 0)), mode="wrap")
        padded = np.pad(padded, ((0, 0), (0, 0), (1, 1)), mode="edge")
        came = np.stack(
            [
                padded[k, 1 - s : 1 - s + height, 1 - e : 1 - e + width]
                for k, (e, s) in enumerate(zip(EAST, SOUTH, strict=True))
            ]
        )
        density = came.sum(0)
        east, south = (np.tensordot(way, came, 1) / density for way in (EAST, SOUTH))
        planes = came + rate * (_at_rest(density, east, south) - came)
        planes = np.where(post != 0, came[AGAINST], planes)
        planes[:, :, 0] = _at_rest(np.ones(1), np.full(1, wind), np.zeros(1))
    return planes


def _at_rest(density: Array, east: Any, south: Any) -> Array:
    along = np.multiply.outer(EAST, east) + np.multiply.outer(SOUTH, south)
    weights = WEIGHTS.reshape(-1, *[1] * density.ndim)
    return weights * density * (1 + 3 * along + 4.5 * along**2 - 1.5 * (east**2 + south**2))


def nbody(places: Array, mass: Array) -> Array:
    """The acceleration of each body."""
    total = np.empty(places.shape)
    for first in range(0, len(places), 256):  # not all pairs at once: there are too many
        to = places[None] - places[first : first + 256, None]
        total[first : first + 256] = (to * (mass / ((to**2).sum(-1) + SOFTENING) ** 1.5)[..., None]).sum(1)
    return total


def smith_waterman(query: Array, texts: Array) -> Array:
    """A table of scores for each text."""
    scores = np.zeros((len(texts), query.size + 1, texts.shape[1] + 1), np.int32)
    for number in range(query.size + texts.shape[1] - 1):  # of the anti-diagonal
        i = np.arange(max(0, number - texts.shape[1] + 1), min(query.size, number + 1))
        j = number - i
        pair = np.where(query[i] == texts[:, j], ALIKE, UNLIKE)
        gapped = np.maximum(scores[:, i, j + 1], scores[:, i + 1, j]) - GAP
        scores[:, i + 1, j + 1] = np.maximum(np.maximum(scores[:, i, j] + pair, gapped), 0)
    return scores[:, 1:, 1:]


def attention(q: Array, k: Array, v: Array, causal: bool = False) -> Array:
    scores = q @ k.swapaxes(1, 2) / q.shape[2] ** 0.5
    if causal:
        scores = np.where(np.tri(*scores.shape[1:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def sparse_product(starts: Array, columns: Array, values: Array, x: Array) -> Array:
    """A matrix in CSR times a vector."""
    out = np.zeros(starts.size - 1)
    np.add.at(out, np.repeat(np.arange(out.size), np.diff(starts)), values * x[columns])
    return out


def material_points(
    place: Array, speed: Array, shear: Array, ratio: Array, *, n: int, steps: int, dt: float
) -> tuple[Array, ...]:
    """Particles after some steps on a grid of n x n, all of them at once."""
    for _ in range(steps):
        base = np.floor(place - 0.5).astype(int)
        off = place - base
        spline = np.stack([0.5 * (1.5 - off) ** 2, 0.75 - (off - 1) ** 2, 0.5 * (off - 0.5) ** 2])
        affine = VOLUME * shear.reshape(-1, 2, 2)
        affine = affine - np.eye(2) * (4 * dt * VOLUME * STIFFNESS * (ratio - 1))[:, None, None]
        nodes = [
            (base[:, 0] + a, base[:, 1] + b, spline[a, :, 0] * spline[b, :, 1], np.array([a, b]) - off)
            for a in range(3)
            for b in range(3)
        ]
        grid = np.zeros((n, n, 3))
        for i, j, weight, way in nodes:
            momentum = weight[:, None] * (VOLUME * speed + (affine @ way[:, :, None])[:, :, 0])
            np.add.at(grid, (i, j), np.concatenate([momentum, (weight * VOLUME)[:, None]], axis=1))
        flow = _flow(grid, dt)
        speed, gradient = np.zeros_like(speed), np.zeros((len(place), 2, 2))
        for i, j, weight, way in nodes:
            speed += weight[:, None] * flow[i, j]
            gradient += 4 * weight[:, None, None] * flow[i, j][:, :, None] * way[:, None, :]
        place, shear = place + dt * speed, gradient.reshape(-1, 4)
        ratio = ratio * (1 + dt * np.trace(gradient, axis1=1, axis2=2))
    return place, speed, shear, ratio


def _flow(grid: Array, dt: float) -> Array:
    """The speed at each node: momentum over mass, pulled down, stopped by walls."""
    n, mass = len(grid), grid[:, :, 2:]
    flow = np.where(mass > 0, grid[:, :, :2] / np.maximum(mass, 1e-30), 0)
    flow[:, :, 1] -= np.where(mass[:, :, 0] > 0, dt * GRAVITY, 0)
    for axis in range(2):
        side, at = flow[:, :, axis], np.indices((n, n))[axis]
        side[((at < WALL) & (side < 0)) | ((at > n - WALL) & (side > 0))] = 0
    return flow


def ray_marcher(height: int, width: int) -> Array:
    """Two spheres on a plane, their light and their shadows."""
    i, j = np.indices((height, width))
    rays = np.stack([(2.0 * j - width) / height, (height - 2.0 * i) / height, np.full(i.shape, 1.5)], axis=-1)
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    light = np.array([0.6, 0.8, -0.6]) / np.linalg.norm([0.6, 0.8, -0.6])
    gone = _marched(np.zeros(3), rays)
    point = rays * gone[..., None]
    steps = 1e-3 * np.eye(3)
    normal = np.stack([_distance(point + step) - _distance(point - step) for step in steps], axis=-1)
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    shade = np.maximum(normal @ light, 0.0)
    dark = _marched(point + normal * 0.01, light) < 30.0
    return np.where(gone <= 30.0, np.minimum(0.15 + np.where(dark, 0.1 * shade, shade), 1.0), 0.0)


def _distance(point: Array) -> Array:
    """How far the nearest thing is."""
    left, right = (
        np.linalg.norm(point - np.array(at), axis=-1) for at in ((-0.8, 0.0, 4.0), (1.1, -0.4, 3.4))
    )
    return np.minimum(np.minimum(left - 1.0, right - 0.6), point[..., 1] + 1.0)


def _marched(start: Array, rays: Array) -> Array:
    """How far rays go until something is near; 60 where nothing is, within 128 steps and a distance of 30."""
    gone = np.zeros(np.broadcast_shapes(start.shape, rays.shape)[:-1])
    met, lost = np.zeros(gone.shape, bool), np.zeros(gone.shape, bool)
    for _ in range(128):
        free = _distance(start + rays * gone[..., None])
        met |= ~lost & (free < 1e-3)
        gone = np.where(met | lost, gone, gone + free)
        lost |= gone > 30.0
    return np.where(met, gone, 60.0)


def carried_back(start: Array, steps: int, spread: float = 0.15, wind: float = 0.3) -> Array:
    """The gradient by the start of the sum of squares of what is spread, and carried east, some steps later."""
    height, width = start.shape
    i, j = np.indices(start.shape)
    neighbours = [
        (np.maximum(i - 1, 0), j, spread), (np.minimum(i + 1, height - 1), j, spread),
        (i, np.maximum(j - 1, 0), spread + wind), (i, np.minimum(j + 1, width - 1), spread),
    ]  # fmt: skip
    own = 1 - 4 * spread - wind
    u = start
    for _ in range(steps):
        u = own * u + sum(share * u[a, b] for a, b, share in neighbours)
    gradient = 2 * u
    for _ in range(steps):
        before = own * gradient
        for a, b, share in neighbours:
            np.add.at(before, (a, b), share * gradient)
        gradient = before
    return gradient
