"""Simulations of the gallery in Taichi, over ndarrays: what a call does, and what came of it."""

# pyright: reportMissingImports=false, reportGeneralTypeIssues=false, reportInvalidTypeForm=false
# pyright: reportOptionalMemberAccess=false, reportFunctionMemberAccess=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false

# Annotations are read by Taichi when a kernel is made: they must not become strings.
import numpy as np
import taichi as ti

from hologram.benchmark.kernels import references
from hologram.benchmark.kernels.declared import MOMENT, RATE, STEPS, WARMTH, WIND, grid_of, tiles
from hologram.benchmark.kernels.references import (
    GRAVITY,
    SOFTENING,
    STIFFNESS,
    VOLUME,
    WALL,
)

Floats, Bytes, Whole = (ti.types.ndarray(dtype=d, ndim=1) for d in (ti.f32, ti.u8, ti.i32))
Vectors2, Vectors3, Matrices = (
    ti.types.ndarray(dtype=d, ndim=1) for d in (ti.math.vec2, ti.math.vec3, ti.math.mat2)
)
Matrix, Cells, Flow = (ti.types.ndarray(dtype=d, ndim=2) for d in (ti.f32, ti.u8, ti.math.vec2))
Stack = ti.types.ndarray(dtype=ti.f32, ndim=3)

EAST, SOUTH, AGAINST = map(tuple, (references.EAST.tolist(), references.SOUTH.tolist(), references.AGAINST))
WEIGHTS = tuple(references.WEIGHTS.tolist())
NEAR, FAR = 1e-3, 30.0


def there(array, dtype=None):
    """A NumPy array as an ndarray."""
    kinds = {np.dtype(np.float32): ti.f32, np.dtype(np.uint8): ti.u8, np.dtype(np.int32): ti.i32}
    made = ti.ndarray(dtype or kinds[array.dtype], array.shape[: array.ndim - (dtype is not None)])
    made.from_numpy(np.ascontiguousarray(array))
    return made


def in_turns(array, step):
    now, after = there(array), there(array)

    def call():
        for _ in range(STEPS // 2):
            step(now, after)
            step(after, now)

    def result():
        now.from_numpy(array)
        call()
        return now.to_numpy()

    return call, result


@ti.kernel
def generation(cells: Cells, after: Cells):
    for i, j in cells:
        height, width = cells.shape[0], cells.shape[1]
        alive = 0
        for a, b in ti.static(ti.ndrange((-1, 2), (-1, 2))):
            if ti.static(a != 0 or b != 0):
                alive += ti.cast(cells[(i + a + height) % height, (j + b + width) % width], ti.i32)
        after[i, j] = ti.cast(alive == 3 or (alive == 2 and cells[i, j] == 1), ti.u8)


def life(cells):
    return in_turns(cells, generation)


@ti.kernel
def warm(u: Matrix, out: Matrix, dt: ti.f32):
    for i, j in u:
        if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
            around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
            out[i, j] = u[i, j] + dt * (around - 4.0 * u[i, j])
        else:
            out[i, j] = 0.0


def heat(plate):
    return in_turns(plate, lambda now, after: warm(now, after, WARMTH))


@ti.func
def at_rest(k: ti.template(), density, east, south):
    along = EAST[k] * east + SOUTH[k] * south
    return WEIGHTS[k] * density * (1.0 + along * (3.0 + 4.5 * along) - 1.5 * (east * east + south * south))


@ti.kernel
def stream(now: Stack, after: Stack, post: Cells, wind: ti.f32, rate: ti.f32):
    for i, j in post:
        height, width = post.shape[0], post.shape[1]
        if j == 0:
            for k in ti.static(range(9)):
                after[k, i, j] = at_rest(k, 1.0, wind, 0.0)
        else:
            came = ti.Vector.zero(ti.f32, 9)
            density, east, south = 0.0, 0.0, 0.0
            for k in ti.static(range(9)):
                row = (i - SOUTH[k] + height) % height
                column = ti.min(j - EAST[k], width - 1)
                came[k] = now[k, row, column]
                density += came[k]
                east += EAST[k] * came[k]
                south += SOUTH[k] * came[k]
            east /= density
            south /= density
            for k in ti.static(range(9)):
                if post[i, j] != 0:
                    after[k, i, j] = came[AGAINST[k]]
                else:
                    after[k, i, j] = came[k] + rate * (at_rest(k, density, east, south) - came[k])


def lattice_boltzmann(planes, post):
    solid = there(post)
    return in_turns(planes, lambda now, after: stream(now, after, solid, WIND, RATE))


@ti.func
def scene(p):
    left = (p - ti.math.vec3(-0.8, 0.0, 4.0)).norm() - 1.0
    right = (p - ti.math.vec3(1.1, -0.4, 3.4)).norm() - 0.6
    return ti.min(left, right, p.y + 1.0)


@ti.func
def march(start, ray):
    gone, found, k = 0.0, 2.0 * FAR, 0
    while k < 128:
        free = scene(start + ray * gone)
        if free < NEAR:
            found = gone
            break
        gone += free
        if gone > FAR:
            break
        k += 1
    return found


@ti.kernel
def picture(out: Matrix):
    for i, j in out:
        height, width = out.shape[0], out.shape[1]
        ray = ti.math.vec3((2.0 * j - width) / height, (height - 2.0 * i) / height, 1.5).normalized()
        gone = march(ti.math.vec3(0.0), ray)
        value = 0.0
        if gone <= FAR:
            p = ray * gone
            e = 1e-3
            normal = ti.math.vec3(
                scene(p + ti.math.vec3(e, 0, 0)) - scene(p - ti.math.vec3(e, 0, 0)),
                scene(p + ti.math.vec3(0, e, 0)) - scene(p - ti.math.vec3(0, e, 0)),
                scene(p + ti.math.vec3(0, 0, e)) - scene(p - ti.math.vec3(0, 0, e)),
            ).normalized()
            light = ti.math.vec3(0.6, 0.8, -0.6).normalized()
            shade = ti.max(normal.dot(light), 0.0)
            if shade > 0.0 and march(p + normal * 0.01, light) < FAR:
                shade = 0.1 * shade
            value = ti.min(0.15 + shade, 1.0)
        out[i, j] = value


def ray_marcher(out):
    drawn = there(out)
    return lambda: picture(drawn), lambda: tiles(drawn.to_numpy())


@ti.kernel
def pull(places: Vectors3, mass: Floats, force: Vectors3):
    for i in places:
        total = ti.math.vec3(0.0)
        for k in range(mass.shape[0]):
            to = places[k] - places[i]
            inverse = ti.rsqrt(to.dot(to) + SOFTENING)
            total += to * (mass[k] * inverse * inverse * inverse)
        force[i] = total


def nbody(places, mass):
    x, m, out = there(places, ti.math.vec3), there(mass), there(places, ti.math.vec3)
    return lambda: pull(x, m, out), out.to_numpy


@ti.kernel
def substep(
    place: Vectors2, speed: Vectors2, shear: Matrices, ratio: Floats, flow: Flow, weight: Matrix, dt: ti.f32
):
    for i, j in weight:
        flow[i, j] = ti.math.vec2(0.0)
        weight[i, j] = 0.0
    for p in place:
        base = ti.cast(ti.floor(place[p] - 0.5), ti.i32)
        off = place[p] - base
        w = [0.5 * (1.5 - off) ** 2, 0.75 - (off - 1.0) ** 2, 0.5 * (off - 0.5) ** 2]
        pressed = -4.0 * dt * VOLUME * STIFFNESS * (ratio[p] - 1.0)
        affine = ti.math.mat2([[pressed, 0.0], [0.0, pressed]]) + VOLUME * shear[p]
        for a, b in ti.static(ti.ndrange(3, 3)):
            way = ti.math.vec2(a, b) - off
            share = w[a].x * w[b].y
            flow[base + ti.math.ivec2(a, b)] += share * (VOLUME * speed[p] + affine @ way)
            weight[base + ti.math.ivec2(a, b)] += share * VOLUME
    for i, j in weight:
        n = weight.shape[0]
        if weight[i, j] > 0.0:
            flow[i, j] /= weight[i, j]
            flow[i, j].y -= dt * GRAVITY
        if (i < WALL and flow[i, j].x < 0.0) or (i > n - WALL and flow[i, j].x > 0.0):
            flow[i, j].x = 0.0
        if (j < WALL and flow[i, j].y < 0.0) or (j > n - WALL and flow[i, j].y > 0.0):
            flow[i, j].y = 0.0
    for p in place:
        base = ti.cast(ti.floor(place[p] - 0.5), ti.i32)
        off = place[p] - base
        w = [0.5 * (1.5 - off) ** 2, 0.75 - (off - 1.0) ** 2, 0.5 * (off - 0.5) ** 2]
        v, gradient = ti.math.vec2(0.0), ti.Matrix.zero(ti.f32, 2, 2)
        for a, b in ti.static(ti.ndrange(3, 3)):
            way = ti.math.vec2(a, b) - off
            here = w[a].x * w[b].y * flow[base + ti.math.ivec2(a, b)]
            v += here
            gradient += 4.0 * here.outer_product(way)
        speed[p] = v
        shear[p] = gradient
        place[p] += dt * v
        ratio[p] *= 1.0 + dt * gradient.trace()


def material_points(place, speed, shear, ratio):
    n = grid_of(len(place))
    given = (place, speed, shear.reshape(-1, 2, 2), ratio)
    state = (
        there(place, ti.math.vec2),
        there(speed, ti.math.vec2),
        ti.ndarray(ti.math.mat2, len(place)),
        there(ratio),
    )
    state[2].from_numpy(given[2])
    flow, weight = ti.ndarray(ti.math.vec2, (n, n)), ti.ndarray(ti.f32, (n, n))

    def call():
        for _ in range(STEPS):
            substep(*state, flow, weight, MOMENT)

    def result():
        for held, array in zip(state, given, strict=True):
            held.from_numpy(array)
        call()
        return state[0].to_numpy()

    return call, result
