"""Taichi's kernels over ndarrays, each work in one: a loop a launch, the outermost loop in parallel."""

# pyright: reportMissingImports=false, reportGeneralTypeIssues=false, reportInvalidTypeForm=false
# pyright: reportOptionalMemberAccess=false

# Annotations are read by Taichi when a kernel is made: they must not become strings.
import taichi as ti

from hologram.benchmark.functions import ADAM, FEATURES

Vector = ti.types.ndarray(dtype=ti.f32, ndim=1)
Matrix = ti.types.ndarray(dtype=ti.f32, ndim=2)
Stack = ti.types.ndarray(dtype=ti.f32, ndim=3)


@ti.kernel
def add(x: Vector, y: Vector, out: Vector):
    for i in out:
        out[i] = x[i] + y[i]


@ti.kernel
def exp(x: Vector, out: Vector):
    for i in out:
        out[i] = ti.exp(x[i])


@ti.kernel
def total(x: Vector, partial: Vector, out: Vector):
    for lane in partial:
        added = 0.0
        for step in range(x.shape[0] // partial.shape[0]):
            added += x[step * partial.shape[0] + lane]
        partial[lane] = added
    for _ in range(1):
        added = 0.0
        for lane in range(partial.shape[0]):
            added += partial[lane]
        out[0] = added


@ti.kernel
def softmax(x: Matrix, out: Matrix):
    for row in range(x.shape[0]):
        top = x[row, 0]
        for k in range(x.shape[1]):
            top = ti.max(top, x[row, k])
        total_weight = 0.0
        for k in range(x.shape[1]):
            e = ti.exp(x[row, k] - top)
            out[row, k] = e
            total_weight += e
        for k in range(x.shape[1]):
            out[row, k] /= total_weight


@ti.kernel
def matmul(a: Matrix, b: Matrix, out: Matrix):
    for i, j in out:
        dot = 0.0
        for k in range(a.shape[1]):
            dot += a[i, k] * b[k, j]
        out[i, j] = dot


@ti.kernel
def chain(a: Vector, b: Vector, out: Vector):
    for i in out:
        x, y = a[i], b[i]
        out[i] = ti.tanh(y) / (1.0 + ti.exp(-(x * y + x))) + ti.exp(x)


@ti.kernel
def layer_norm(x: Matrix, weight: Vector, bias: Vector, out: Matrix):
    for row in range(x.shape[0]):
        added = 0.0
        for k in range(x.shape[1]):
            added += x[row, k]
        mean = added / x.shape[1]
        squares = 0.0
        for k in range(x.shape[1]):
            squares += (x[row, k] - mean) ** 2
        scale = 1.0 / ti.sqrt(squares / x.shape[1] + 1e-5)
        for k in range(x.shape[1]):
            out[row, k] = (x[row, k] - mean) * scale * weight[k] + bias[k]


@ti.func
def erf(x):
    """Abramowitz and Stegun 7.1.26, off by 1.5e-7: Taichi has no such function."""
    t = 1.0 / (1.0 + 0.3275911 * ti.abs(x))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return ti.select(x < 0.0, -1.0, 1.0) * (1.0 - series * ti.exp(-x * x))


@ti.kernel
def mlp(x: Matrix, w1: Matrix, b1: Vector, w2: Matrix, b2: Vector, hidden: Matrix, out: Matrix):
    for i, j in hidden:
        dot = b1[j]
        for k in range(x.shape[1]):
            dot += x[i, k] * w1[k, j]
        hidden[i, j] = 0.5 * dot * (1.0 + erf(dot * 0.7071067811865476))
    for i, j in out:
        dot = b2[j]
        for k in range(hidden.shape[1]):
            dot += hidden[i, k] * w2[k, j]
        out[i, j] = dot


@ti.kernel
def attention(q: Stack, k: Stack, v: Stack, scores: Stack, out: Stack):
    for head, i, j in scores:
        dot = 0.0
        for d in range(q.shape[2]):
            dot += q[head, i, d] * k[head, j, d]
        scores[head, i, j] = dot * ti.static(FEATURES**-0.5)
    for head, i in ti.ndrange(scores.shape[0], scores.shape[1]):
        top = scores[head, i, 0]
        for j in range(scores.shape[2]):
            top = ti.max(top, scores[head, i, j])
        total_weight = 0.0
        for j in range(scores.shape[2]):
            e = ti.exp(scores[head, i, j] - top)
            scores[head, i, j] = e
            total_weight += e
        for j in range(scores.shape[2]):
            scores[head, i, j] /= total_weight
    for head, i, d in out:
        dot = 0.0
        for j in range(scores.shape[2]):
            dot += scores[head, i, j] * v[head, j, d]
        out[head, i, d] = dot


@ti.kernel
def adam(p: Vector, m: Vector, v: Vector, g: Vector):
    for i in p:
        m[i] = ti.static(ADAM.first) * m[i] + ti.static(1 - ADAM.first) * g[i]
        v[i] = ti.static(ADAM.second) * v[i] + ti.static(1 - ADAM.second) * g[i] * g[i]
        scale = ti.sqrt(v[i] * ti.static(1 / ADAM.second_correction)) + ti.static(ADAM.epsilon)
        p[i] -= ti.static(ADAM.size) * m[i] / scale
