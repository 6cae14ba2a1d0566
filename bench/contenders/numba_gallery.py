"""The gallery of kernels in Numba: what a call does, and what came of it, by the work's name.

Loops over rows, bodies, particles are shared out by prange. Numba's CPU has no atomics: where several threads add to
one place, each has an array of its own.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import numba
import numpy as np
from numba import njit, prange

from hologram.benchmark.kernels import references
from hologram.benchmark.kernels.declared import BINS, MOMENT, RATE, STEPS, WARMTH, WIND, grid_of, tiles

f4 = np.float32
EAST, SOUTH, AGAINST = references.EAST, references.SOUTH, np.array(references.AGAINST)
WEIGHTS = references.WEIGHTS.astype(f4)
SOFTENING, STIFFNESS, GRAVITY, VOLUME = map(
    f4, (references.SOFTENING, references.STIFFNESS, references.GRAVITY, references.VOLUME)
)
WALL, ALIKE, UNLIKE, GAP = references.WALL, references.ALIKE, references.UNLIKE, references.GAP
ONE, HALF, TWO, THREE, FOUR = map(f4, (1, 0.5, 2, 3, 4))
NEAR, FAR = f4(1e-3), f4(30.0)
WIDTH = 64
THREADS = numba.get_num_threads()
parallel = njit(parallel=True, fastmath=True)
inlined = njit(fastmath=True, inline="always")


def in_turns(array, step):
    now, after = array.copy(), array.copy()

    def call():
        for _ in range(STEPS // 2):
            step(now, after)
            step(after, now)

    def result():
        now[...] = array
        call()
        return now

    return call, result


@parallel
def generation(cells, after):
    height, width = cells.shape
    for i in prange(height):
        up, down = (i - 1) % height, (i + 1) % height
        for j in range(width):
            left, right = (j - 1) % width, (j + 1) % width
            alive = cells[up, left] + cells[up, j] + cells[up, right] + cells[i, left] + cells[i, right]
            alive += cells[down, left] + cells[down, j] + cells[down, right]
            after[i, j] = alive == 3 or (alive == 2 and cells[i, j] == 1)


def life(cells):
    return in_turns(cells, generation)


@parallel
def warm(u, out, dt):
    height, width = u.shape
    for i in prange(height):
        for j in range(width):
            if 0 < i < height - 1 and 0 < j < width - 1:
                around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                out[i, j] = u[i, j] + dt * (around - FOUR * u[i, j])
            else:
                out[i, j] = 0


def heat(plate):
    return in_turns(plate, lambda now, after: warm(now, after, f4(WARMTH)))


@inlined
def at_rest(k, density, east, south):
    along = f4(EAST[k]) * east + f4(SOUTH[k]) * south
    squares = east * east + south * south
    return WEIGHTS[k] * density * (ONE + along * (THREE + f4(4.5) * along) - f4(1.5) * squares)


@parallel
def stream(now, after, post, wind, rate):
    height, width = post.shape
    for i in prange(height):
        came = np.empty(9, f4)
        for k in range(9):
            after[k, i, 0] = at_rest(k, ONE, wind, f4(0))
        for j in range(1, width):
            density, east, south = f4(0), f4(0), f4(0)
            for k in range(9):
                came[k] = now[k, (i - SOUTH[k]) % height, min(j - EAST[k], width - 1)]
                density += came[k]
                east += f4(EAST[k]) * came[k]
                south += f4(SOUTH[k]) * came[k]
            east /= density
            south /= density
            for k in range(9):
                if post[i, j] != 0:
                    after[k, i, j] = came[AGAINST[k]]
                else:
                    after[k, i, j] = came[k] + rate * (at_rest(k, density, east, south) - came[k])


def lattice_boltzmann(planes, post):
    return in_turns(planes, lambda now, after: stream(now, after, post, f4(WIND), f4(RATE)))


@inlined
def norm(x, y, z):
    return np.sqrt(x * x + y * y + z * z)


@njit(fastmath=True)
def scene(x, y, z):
    left = norm(x + f4(0.8), y, z - FOUR) - ONE
    right = norm(x - f4(1.1), y + f4(0.4), z - f4(3.4)) - f4(0.6)
    return min(left, right, y + ONE)


@njit(fastmath=True)
def march(x, y, z, a, b, c):
    gone = f4(0)
    for _ in range(128):
        free = scene(x + a * gone, y + b * gone, z + c * gone)
        if free < NEAR:
            return gone
        gone += free
        if gone > FAR:
            break
    return TWO * FAR


@parallel
def picture(out):
    height, width = out.shape
    e = f4(1e-3)
    light = f4(1) / norm(f4(0.6), f4(0.8), f4(-0.6))
    lx, ly, lz = f4(0.6) * light, f4(0.8) * light, f4(-0.6) * light
    for i in prange(height):
        for j in range(width):
            a, b, c = f4(2 * j - width) / f4(height), f4(height - 2 * i) / f4(height), f4(1.5)
            length = ONE / norm(a, b, c)
            a, b, c = a * length, b * length, c * length
            gone = march(f4(0), f4(0), f4(0), a, b, c)
            if gone > FAR:
                out[i, j] = 0
                continue
            x, y, z = a * gone, b * gone, c * gone
            p = scene(x + e, y, z) - scene(x - e, y, z)
            q = scene(x, y + e, z) - scene(x, y - e, z)
            r = scene(x, y, z + e) - scene(x, y, z - e)
            length = ONE / norm(p, q, r)
            p, q, r = p * length, q * length, r * length
            shade = max(p * lx + q * ly + r * lz, f4(0))
            near = f4(0.01)
            if shade > 0 and march(x + p * near, y + q * near, z + r * near, lx, ly, lz) < FAR:
                shade *= f4(0.1)
            out[i, j] = min(f4(0.15) + shade, ONE)


def ray_marcher(out):
    drawn = out.copy()
    return lambda: picture(drawn), lambda: tiles(drawn)


@parallel
def pull(places, mass, force):
    for i in prange(len(mass)):
        x, y, z = places[i, 0], places[i, 1], places[i, 2]
        a, b, c = f4(0), f4(0), f4(0)
        for k in range(len(mass)):
            p, q, r = places[k, 0] - x, places[k, 1] - y, places[k, 2] - z
            inverse = ONE / np.sqrt(p * p + q * q + r * r + SOFTENING)
            share = mass[k] * inverse * inverse * inverse
            a += p * share
            b += q * share
            c += r * share
        force[i, 0], force[i, 1], force[i, 2] = a, b, c


def nbody(places, mass):
    out = np.empty_like(places)
    return lambda: pull(places, mass, out), lambda: out


@inlined
def spline(x):
    return HALF * (f4(1.5) - x) ** 2, f4(0.75) - (x - ONE) ** 2, HALF * (x - HALF) ** 2


@parallel
def substep(place, speed, shear, ratio, grids, flow, dt):
    n, count = flow.shape[0], len(place)
    for thread in prange(THREADS):
        grid = grids[thread]
        grid[...] = 0
        for p in range(count * thread // THREADS, count * (thread + 1) // THREADS):
            i, j = int(place[p, 0] - HALF), int(place[p, 1] - HALF)
            x, y = place[p, 0] - f4(i), place[p, 1] - f4(j)
            across, up = spline(x), spline(y)
            pressed = -FOUR * dt * VOLUME * STIFFNESS * (ratio[p] - ONE)
            for a in range(3):
                for b in range(3):
                    share, to_x, to_y = across[a] * up[b], f4(a) - x, f4(b) - y
                    east = VOLUME * (speed[p, 0] + shear[p, 0] * to_x + shear[p, 1] * to_y) + pressed * to_x
                    north = VOLUME * (speed[p, 1] + shear[p, 2] * to_x + shear[p, 3] * to_y) + pressed * to_y
                    grid[i + a, j + b, 0] += share * east
                    grid[i + a, j + b, 1] += share * north
                    grid[i + a, j + b, 2] += share * VOLUME
    for i in prange(n):
        for j in range(n):
            east, north, mass = f4(0), f4(0), f4(0)
            for thread in range(THREADS):
                east += grids[thread, i, j, 0]
                north += grids[thread, i, j, 1]
                mass += grids[thread, i, j, 2]
            if mass > 0:
                east, north = east / mass, north / mass - dt * GRAVITY
            if (i < WALL and east < 0) or (i > n - WALL and east > 0):
                east = f4(0)
            if (j < WALL and north < 0) or (j > n - WALL and north > 0):
                north = f4(0)
            flow[i, j, 0], flow[i, j, 1] = east, north
    for p in prange(count):
        i, j = int(place[p, 0] - HALF), int(place[p, 1] - HALF)
        x, y = place[p, 0] - f4(i), place[p, 1] - f4(j)
        across, up = spline(x), spline(y)
        u, v = f4(0), f4(0)
        xx, xy, yx, yy = f4(0), f4(0), f4(0), f4(0)
        for a in range(3):
            for b in range(3):
                share = across[a] * up[b]
                east, north = share * flow[i + a, j + b, 0], share * flow[i + a, j + b, 1]
                to_x, to_y = FOUR * (f4(a) - x), FOUR * (f4(b) - y)
                u += east
                v += north
                xx += east * to_x
                xy += east * to_y
                yx += north * to_x
                yy += north * to_y
        speed[p, 0], speed[p, 1] = u, v
        shear[p, 0], shear[p, 1], shear[p, 2], shear[p, 3] = xx, xy, yx, yy
        place[p, 0] += dt * u
        place[p, 1] += dt * v
        ratio[p] *= ONE + dt * (xx + yy)


def material_points(*given):
    n = grid_of(len(given[0]))
    state = [array.copy() for array in given]
    grids, flow = np.zeros((THREADS, n, n, 3), f4), np.zeros((n, n, 2), f4)

    def call():
        for _ in range(STEPS):
            substep(*state, grids, flow, f4(MOMENT))

    def result():
        for held, array in zip(state, given, strict=True):
            held[...] = array
        call()
        return state[0]

    return call, result


@parallel
def count(x, counts):
    own = np.zeros((THREADS, BINS), np.int32)
    for thread in prange(THREADS):
        for i in range(len(x) * thread // THREADS, len(x) * (thread + 1) // THREADS):
            place = int(np.floor((x[i] + FOUR) * f4(BINS / 8)))
            if 0 <= place < BINS:
                own[thread, place] += 1
    counts[:] = own.sum(0)


def histogram(x):
    counts = np.zeros(BINS, np.int32)
    return lambda: count(x, counts), lambda: counts


@parallel
def total(x, out):
    added = f4(0)
    for i in prange(len(x)):
        added += x[i]
    out[0] = added


def reduction(x):
    out = np.zeros(1, f4)
    return lambda: total(x, out), lambda: out


@parallel
def multiply(starts, columns, values, x, out):
    for i in prange(len(out)):
        dot = f4(0)
        for k in range(starts[i], starts[i + 1]):
            dot += values[k] * x[columns[k]]
        out[i] = dot


def sparse_product(*given):
    out = np.zeros(given[0].size - 1, f4)
    return lambda: multiply(*given, out), lambda: out


@parallel
def fill(query, texts, scores):
    for text in prange(len(texts)):
        for i in range(len(query)):
            left, corner = np.int32(0), np.int32(0)
            for j in range(texts.shape[1]):
                above = scores[text, i - 1, j] if i > 0 else np.int32(0)
                pair = np.int32(ALIKE) if query[i] == texts[text, j] else np.int32(UNLIKE)
                left = max(corner + pair, max(above, left) - np.int32(GAP), np.int32(0))
                scores[text, i, j] = left
                corner = above


def smith_waterman(query, texts):
    out = np.zeros((len(texts), query.size, texts.shape[1]), np.int32)
    return lambda: fill(query, texts, out), lambda: out


@parallel
def product(a, b, c):
    for i in prange(c.shape[0]):
        c[i] = 0
        for k in range(a.shape[1]):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def tiled_product(a, b):
    out = np.zeros((len(a), b.shape[1]), f4)
    return lambda: product(a, b, out), lambda: out


@parallel
def attend(q, k, v, out, scale):
    for row in prange(q.shape[0] * q.shape[1]):
        head, i = row // q.shape[1], row % q.shape[1]
        highest, weights = f4(-1e30), f4(0)
        added = np.zeros(WIDTH, f4)
        for j in range(k.shape[1]):
            score = f4(0)
            for c in range(WIDTH):
                score += q[head, i, c] * k[head, j, c]
            score *= scale
            top = max(highest, score)
            kept, weight = np.exp(highest - top), np.exp(score - top)
            highest, weights = top, weights * kept + weight
            for c in range(WIDTH):
                added[c] = added[c] * kept + weight * v[head, j, c]
        for c in range(WIDTH):
            out[head, i, c] = added[c] / weights


def kernel_attention(q, k, v):
    out = np.zeros_like(q)
    return lambda: attend(q, k, v, out, f4(WIDTH**-0.5)), lambda: out


MAKERS = {
    made.__name__: made
    for made in (
        life, heat, lattice_boltzmann, ray_marcher, nbody, material_points, histogram, reduction, sparse_product,
        smith_waterman, tiled_product, kernel_attention,
    )
}  # fmt: skip
