"""Kernels with gradients that store in place, compute with vectors and structs, mix dtypes and add by atomics."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import hologram as hg
from tests.kernels.differentiable.case import NEXT, Cases, N

CASES = Cases()
case = CASES.case


@case((N,))
def added_in_place(T):
    @hg.kernel
    def added_in_place(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        out[i] += x[i]
        out[i] *= x[i]
        out[i] = out[i] * out[i]

    return added_in_place


@case((N,))
def stored_twice(T):
    @hg.kernel
    def stored_twice(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        out[i] = 7.0 * x[i]
        if i < 3:
            out[i] = x[i] * x[i]

    return stored_twice


@case((N, 2), grid=N)
def by_vectors(T):
    @hg.kernel
    def by_vectors(p: hg.Array[T, 2], out: hg.Array[T]):
        i = hg.index()
        v = hg.vec2(p[i, 0], p[i, 1])
        w = v * 2.0 + hg.vec2(p[0, 1], p[1, 0])
        out[i] = v.dot(w) + w.length()

    return by_vectors


@dataclass
class Body:
    place: Any
    speed: Any


@hg.func
def moved(body, dt):
    return Body(body.place + dt * body.speed, body.speed - dt * hg.sin(body.place))


@case((N,), (N,), 0.2)
def a_struct(T):
    @hg.kernel
    def a_struct(x: hg.Array[T], v: hg.Array[T], dt: T, out: hg.Array[T]):
        i = hg.index()
        body = Body(x[i], v[i])
        for _k in range(4):
            body = moved(body, dt)
        out[i] = body.place * body.speed

    return a_struct


@case((N,), NEXT)
def of_mixed_dtypes(T):
    @hg.kernel
    def of_mixed_dtypes(x: hg.Array[T], n: hg.Array[hg.i32], out: hg.Array[T]):
        i = hg.index()
        out[i] = x[i] * T(n[i]) + T(i) * x[i] * x[i]

    return of_mixed_dtypes


@case((5, 2), grid=(5, 2), shape=(5, 2))
def bodies(T):
    @hg.kernel
    def bodies(p: hg.Array[T, 2], out: hg.Array[T, 2]):
        i, axis = hg.index()
        total = 0.0 * p[i, 0]
        for j in range(p.shape[0]):
            if j != i:
                dx, dy = p[j, 0] - p[i, 0], p[j, 1] - p[i, 1]
                d = dx * dx + dy * dy + 0.1
                total += (p[j, axis] - p[i, axis]) / (d * hg.sqrt(d))
        out[i, axis] = total

    return bodies


@case((N,), np.array([0, 2, 3, 6], np.int32), NEXT, (N,), grid=3, shape=(3,))
def sparse_rows(T):
    @hg.kernel
    def sparse_rows(
        a: hg.Array[T], rows: hg.Array[hg.i32], columns: hg.Array[hg.i32], x: hg.Array[T], out: hg.Array[T]
    ):
        i = hg.index()
        total = 0.0 * x[0]
        for k in range(rows[i], rows[i + 1]):
            total += a[k] * x[columns[k]]
        out[i] = total * total

    return sparse_rows


@case((N,))
def of_workgroups(T):
    @hg.kernel(workgroup=4)
    def of_workgroups(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        out[i] = x[i] * x[0] + x[N - 1 - i]

    return of_workgroups


@case((N,), NEXT)
def added_by_atomics(T):
    if T is not hg.f32:
        return sums_of_sources(T)

    @hg.kernel
    def added_by_atomics(x: hg.Array[T], at: hg.Array[hg.i32], out: hg.Array[T]):
        i = hg.index()
        hg.atomic_add(out, at[i], x[i] * x[i])

    return added_by_atomics


def sums_of_sources(T):
    """The same without atomics, which f64 has not."""

    @hg.kernel
    def sums_of_sources(x: hg.Array[T], at: hg.Array[hg.i32], out: hg.Array[T]):
        i = hg.index()
        total = out[i]
        for k in range(x.shape[0]):
            if at[k] == i:
                total += x[k] * x[k]
        out[i] = total

    return sums_of_sources
