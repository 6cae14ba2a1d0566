"""Kernels with gradients that loop, branch and end early."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

import hologram as hg
from tests.kernels.differentiable.case import NEXT, Cases, N

CASES = Cases()
case = CASES.case


@case((N,))
def power_by_turns(T):
    @hg.kernel
    def power_by_turns(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        y = x[i]
        for _k in range(5):
            y = y * x[i] + hg.sin(y)
        out[i] = y

    return power_by_turns


@case((N,), NEXT)
def turns_of_data(T):
    @hg.kernel
    def turns_of_data(x: hg.Array[T], n: hg.Array[hg.i32], out: hg.Array[T]):
        i = hg.index()
        y = x[i]
        for k in range(n[i]):
            y = 0.5 * y * y + x[k]
        out[i] = y

    return turns_of_data


@case((N,))
def two_loops(T):
    @hg.kernel
    def two_loops(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        y = x[i]
        for k in range(3):
            z = y
            for j in range(k + 1):
                z = hg.sin(z) * x[j]
            y = y + z * y
        out[i] = y

    return two_loops


@case((N,))
def a_loop_with_branches(T):
    @hg.kernel
    def a_loop_with_branches(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        y, z = x[i], 0.0 * x[i]
        for k in range(6):
            if k % 2 == 0:
                y = y * 1.1 + z
                continue
            z = z + y * y
        out[i] = y * z

    return a_loop_with_branches


@case((N,))
def an_early_end(T):
    @hg.kernel
    def an_early_end(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        y = x[i]
        for _k in range(20):
            if y > 4.0:
                break
            y = y * (1.0 + 0.5 * x[i])
        out[i] = y

    return an_early_end


@case((N,))
def newton(T):
    @hg.kernel
    def newton(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        y, turns = x[i], 0
        while turns < 4 and abs(y * y - x[i]) > 1e-9:
            y = 0.5 * (y + x[i] / y)
            turns += 1
        out[i] = y

    return newton


@case((N,))
def backwards_range(T):
    @hg.kernel
    def backwards_range(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        y = x[i]
        for k in range(N - 1, 0, -2):
            y = y * x[k] + y * y * 0.25
        out[i] = y

    return backwards_range


@case((N,))
def an_early_return(T):
    @hg.kernel
    def an_early_return(x: hg.Array[T], out: hg.Array[T]):
        i = hg.index()
        if i == 2:
            return
        if x[i] > 1.0:
            out[i] = x[i] ** 3.0
            return
        out[i] = 5.0 * x[i]

    return an_early_return
