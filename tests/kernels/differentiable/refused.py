"""Kernels that have no gradient, with the reason."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

import hologram as hg


@hg.kernel
def shares(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    hg.atomic_exchange(out, i, x[i])


@hg.kernel
def neighbours(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    out[i] = x[i] * out[(i + 1) % 8]


@hg.kernel
def sums_in_place(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    for k in range(8):
        out[i] += x[k]


@hg.kernel
def one_place(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    out[0] = x[hg.index()]


@hg.kernel(workgroup=8)
def together(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    own = hg.shared(8, hg.f32)
    own[hg.thread_index()] = x[hg.index()]
    hg.barrier()
    out[hg.index()] = own[7 - hg.thread_index()]


@hg.kernel
def own_array(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    own = hg.local(2, hg.f32)
    own[0] = x[i]
    out[i] = own[0]


REFUSED = [
    (shares, "atomic_exchange has no derivative"),
    (neighbours, "the kernel stores into it elsewhere"),
    (sums_in_place, "keep it in a variable"),
    (one_place, "which one wins is not known"),
    (together, "share memory"),
    (own_array, "local array"),
]
