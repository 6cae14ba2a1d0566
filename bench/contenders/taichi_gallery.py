"""The gallery of kernels in Taichi, over ndarrays: what a call does, and what came of it, by the work's name."""

# pyright: reportMissingImports=false, reportGeneralTypeIssues=false, reportInvalidTypeForm=false
# pyright: reportOptionalMemberAccess=false, reportFunctionMemberAccess=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false

# Annotations are read by Taichi when a kernel is made: they must not become strings.
from itertools import pairwise

import taichi as ti

from bench.contenders.taichi_simulations import (
    Bytes,
    Cells,
    Floats,
    Matrix,
    Stack,
    Whole,
    heat,
    lattice_boltzmann,
    life,
    material_points,
    nbody,
    ray_marcher,
    there,
)  # fmt: skip
from hologram.benchmark.kernels.declared import BINS, STEPS
from hologram.benchmark.kernels.references import ALIKE, GAP, UNLIKE

WIDTH = 64
LANES = 1024  # that add their shares of a sum, or count theirs


@ti.kernel
def count(x: Floats, counts: Whole):
    for k in counts:
        counts[k] = 0
    for i in x:
        place = ti.cast(ti.floor((x[i] + 4.0) / 8.0 * BINS), ti.i32)
        if 0 <= place < BINS:
            counts[place] += 1


def histogram(x):
    numbers, counts = there(x), ti.ndarray(ti.i32, BINS)
    return lambda: count(numbers, counts), counts.to_numpy


@ti.kernel
def total(x: Floats, out: Floats):
    out[0] = 0.0
    for lane in range(LANES):
        own, k = 0.0, lane
        while k < x.shape[0]:
            own += x[k]
            k += LANES
        out[0] += own


def reduction(x):
    numbers, out = there(x), ti.ndarray(ti.f32, 1)
    return lambda: total(numbers, out), out.to_numpy


@ti.kernel
def multiply(starts: Whole, columns: Whole, values: Floats, x: Floats, out: Floats):
    for i in out:
        dot = 0.0
        for k in range(starts[i], starts[i + 1]):
            dot += values[k] * x[columns[k]]
        out[i] = dot


def sparse_product(*given):
    arrays, out = [there(array) for array in given], ti.ndarray(ti.f32, given[0].size - 1)
    return lambda: multiply(*arrays, out), out.to_numpy


@ti.kernel
def fill(query: Bytes, texts: Cells, scores: ti.types.ndarray(dtype=ti.i32, ndim=3)):
    for text in range(texts.shape[0]):
        for i in range(query.shape[0]):
            left, corner = 0, 0
            for j in range(texts.shape[1]):
                above = 0
                if i > 0:
                    above = scores[text, i - 1, j]
                pair = ALIKE if query[i] == texts[text, j] else UNLIKE
                score = ti.max(corner + pair, ti.max(above, left) - GAP, 0)
                scores[text, i, j] = score
                left, corner = score, above


def smith_waterman(query, texts):
    a, b = there(query), there(texts)
    out = ti.ndarray(ti.i32, (len(texts), query.size, texts.shape[1]))
    return lambda: fill(a, b, out), out.to_numpy


@ti.kernel
def product(a: Matrix, b: Matrix, c: Matrix):
    for i, j in c:
        dot = 0.0
        for k in range(a.shape[1]):
            dot += a[i, k] * b[k, j]
        c[i, j] = dot


def tiled_product(a, b):
    x, y, out = there(a), there(b), ti.ndarray(ti.f32, (len(a), b.shape[1]))
    return lambda: product(x, y, out), out.to_numpy


@ti.kernel
def attend(q: Stack, k: Stack, v: Stack, out: Stack, scale: ti.f32):
    for head, i in ti.ndrange(q.shape[0], q.shape[1]):
        highest, weights = -1e30, 0.0
        query, total = ti.Vector.zero(ti.f32, WIDTH), ti.Vector.zero(ti.f32, WIDTH)
        for c in range(WIDTH):
            query[c] = q[head, i, c] * scale
        for j in range(k.shape[1]):
            score = 0.0
            for c in range(WIDTH):
                score += query[c] * k[head, j, c]
            top = ti.max(highest, score)
            kept, weight = ti.exp(highest - top), ti.exp(score - top)
            highest = top
            weights = weights * kept + weight
            for c in range(WIDTH):
                total[c] = total[c] * kept + weight * v[head, j, c]
        for c in range(WIDTH):
            out[head, i, c] = total[c] / weights


def kernel_attention(q, k, v):
    arrays, out = [there(array) for array in (q, k, v)], ti.ndarray(ti.f32, q.shape)
    return lambda: attend(*arrays, out, WIDTH**-0.5), out.to_numpy


@ti.kernel
def carry(u: Matrix, out: Matrix):
    for i, j in u:
        left, right = u[i, ti.max(j - 1, 0)], u[i, ti.min(j + 1, u.shape[1] - 1)]
        around = u[ti.max(i - 1, 0), j] + u[ti.min(i + 1, u.shape[0] - 1), j] + left + right
        out[i, j] = u[i, j] + 0.15 * (around - 4.0 * u[i, j]) - 0.3 * (u[i, j] - left)


@ti.kernel
def squares(u: Matrix, loss: Floats):
    for i, j in u:
        loss[0] += u[i, j] ** 2


def where_from(start):
    fields = [ti.ndarray(ti.f32, start.shape, needs_grad=True) for _ in range(STEPS + 1)]
    loss = ti.ndarray(ti.f32, 1, needs_grad=True)
    fields[0].from_numpy(start)

    def call():
        for field in fields:
            field.grad.fill(0.0)
        loss.fill(0.0)
        for before, after in pairwise(fields):
            carry(before, after)
        squares(fields[-1], loss)
        loss.grad.fill(1.0)
        squares.grad(fields[-1], loss)
        for after, before in pairwise(reversed(fields)):
            carry.grad(before, after)

    return call, fields[0].grad.to_numpy


MAKERS = {
    made.__name__: made
    for made in (
        life, heat, lattice_boltzmann, ray_marcher, nbody, material_points, histogram, reduction, sparse_product,
        smith_waterman, tiled_product, kernel_attention, where_from,
    )
}  # fmt: skip
