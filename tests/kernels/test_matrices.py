"""Matrices in kernels: products, elements, and the functions of linear algebra, on every backend and as Python."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.kernels.test_ways_out import same


@hg.kernel
def two(x: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2]):
    i = hg.index()
    m = hg.mat2(x[i, 0], x[i, 1], x[i, 2], x[i, 3])
    v = hg.vec2(x[i, 4], x[i, 5])
    out[i, 0], out[i, 1] = m @ v
    out[i, 2], out[i, 3] = v @ m
    out[i, 4] = m.determinant()
    out[i, 5] = (m @ m.inverse() - hg.mat2.identity()).trace()
    out[i, 6], out[i, 7] = (m @ m.T)[1]
    out[i, 8] = v @ v + v.outer(v)[0, 1]


@hg.kernel
def three(x: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2]):
    i = hg.index()
    m = hg.mat3(x[i, 0], x[i, 1], x[i, 2], x[i, 3], x[i, 4], x[i, 5], x[i, 6], x[i, 7], x[i, 8])
    v = hg.vec3(x[i, 9], x[i, 10], x[i, 11])
    out[i, 0], out[i, 1], out[i, 2] = m @ v
    out[i, 3], out[i, 4], out[i, 5] = v @ m
    out[i, 6] = m.determinant()
    out[i, 7] = (m @ m.inverse() - hg.mat3.identity()).trace()
    out[i, 8], out[i, 9], out[i, 10] = (m @ m.T)[1]
    out[i, 11] = v @ v + v.outer(v)[0, 1]


@hg.kernel
def four(x: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2]):
    i = hg.index()
    m = hg.mat4(0.0)
    for j in range(4):
        for k in range(4):
            m[j, k] = x[i, 4 * j + k]
    v = hg.vec4(0.0)
    for k in range(4):
        v[k] = x[i, 16 + k]
    out[i, 0], out[i, 1], out[i, 2], out[i, 3] = m @ v
    out[i, 4], out[i, 5], out[i, 6], out[i, 7] = v @ m
    out[i, 8] = m.determinant()
    out[i, 9] = (m @ m.inverse() - hg.mat4.identity()).trace()
    square = m @ m.T
    for k in range(4):
        out[i, 10 + k] = square[1, k]
    out[i, 14] = v @ v + v.outer(v)[0, 1]


@pytest.mark.parametrize(("n", "kernel"), [(2, two), (3, three), (4, four)])
def test_products_and_inverses(executor: hg.Executor, n: int, kernel: Any) -> None:
    rng = np.random.default_rng(n)
    x = (rng.normal(size=(5, n * n + n)) + np.append(2 * np.eye(n).ravel(), np.zeros(n))).astype(np.float32)
    _, out = same(kernel, executor, 5, x, np.zeros((5, 3 * n + 3), np.float32), atol=1e-4)
    for row, found in zip(x.astype(np.float64), out, strict=True):
        m, v = row[: n * n].reshape(n, n), row[n * n :]
        wanted = [*(m @ v), *(v @ m), np.linalg.det(m), 0.0, *(m @ m.T)[1], v @ v + v[0] * v[1]]
        assert np.allclose(found, wanted, rtol=1e-4, atol=1e-4)


@hg.kernel
def by_parts(x: hg.Array[hg.i32], out: hg.Array[hg.i32, 2]):
    i = hg.index()
    m = hg.mat2(1, 2, 3, x[i])
    n = 2 * m + hg.mat2(x[i]) - m * m // 2
    if x[i] > 2:
        n[1, 0] += 100
        n[0] = hg.vec2(7, 8)
    kept = n
    n[1][1] = -1
    floats = hg.f32(-n) / 2
    out[i, 0], out[i, 1], out[i, 2], out[i, 3] = n[0, 0], n[0, 1], n[1, 0], n.row1.y
    out[i, 4] = kept[1, 1] + hg.i32(4.0 * floats[1, 0]) + n[x[i] % 2, (x[i] + 1) % 2]


def test_elements_are_values_and_parts_are_told_by_numbers(executor: hg.Executor) -> None:
    x = np.arange(6, dtype=np.int32)
    _, out = same(by_parts, executor, 6, x, np.zeros((6, 5), np.int32))
    for a, found in zip(x.tolist(), out.tolist(), strict=True):
        m = np.array([[1, 2], [3, a]])
        n = 2 * m + a - m * m // 2
        if a > 2:
            n[1, 0] += 100
            n[0] = 7, 8
        kept = n[1, 1]
        n[1, 1] = -1
        assert found == [*n.ravel(), kept - 2 * n[1, 0] + n[a % 2, (a + 1) % 2]]


@hg.kernel
def turned(angle: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    c, s = hg.cos(angle[i]), hg.sin(angle[i])
    turn = hg.mat2(c, -s, s, c)
    total = hg.mat2.identity()
    for _ in range(3):
        total = total @ turn
    out[i] = (total @ hg.vec2(1.0, 2.0)).dot(hg.vec2(3.0, -1.0))


def test_gradient_goes_through_products(executor: hg.Executor) -> None:
    angle = np.linspace(-1, 1, 5).astype(np.float32)

    def loss(x: hg.Tensor) -> hg.Tensor:
        out = hg.zeros_like(x)
        turned[x.shape](x, out)
        return hg.sum(out)

    c, s = np.cos(3 * angle), np.sin(3 * angle)
    value, slope = hg.value_and_grad(loss)(executor.tensor(angle))
    assert np.isclose(value.item(), (3 * (c - 2 * s) - (s + 2 * c)).sum(), atol=1e-4)
    assert np.allclose(slope.to_numpy(), 3 * (3 * (-s - 2 * c) - (c - 2 * s)), atol=1e-4)


def test_numbers_of_numpy_make_no_array_of_a_vector() -> None:
    v = np.float32(2.0) * hg.vec3(1.0, 2.0, 3.0)
    assert isinstance(v, hg.vec3)
    assert [*v] == [2.0, 4.0, 6.0]


@hg.kernel
def sizes(out: hg.Array[hg.f32]):
    out[0] = (hg.mat2(1.0) @ hg.vec3(1.0)).x


@hg.kernel
def count(out: hg.Array[hg.f32]):
    out[0] = hg.mat2(1.0, 2.0)[0, 0]


@hg.kernel
def beyond(out: hg.Array[hg.f32]):
    out[0] = hg.mat2(1.0)[0, 2]


@hg.kernel
def three_indices(out: hg.Array[hg.f32]):
    out[0] = hg.mat2(1.0)[0, 1, 0]


@hg.kernel
def of_numbers(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    out[0] = x[0] @ x[1]


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (sizes, r"@ takes matrices and vectors of one size, got mat2\(.*\) and vec3\(.*\)"),
        (count, "mat2 takes 1 or 4 numbers, got 2"),
        (beyond, r"vec2\(1.0, 1.0\) has 2 parts, got 2"),
        (three_indices, "takes no index of 3 numbers"),
        (of_numbers, "@ takes matrices and vectors of one size, got f32 and f32"),
    ],
)
def test_refused(kernel: Any, words: str) -> None:
    with pytest.raises(hg.KernelError, match=words):
        kernel.program()
