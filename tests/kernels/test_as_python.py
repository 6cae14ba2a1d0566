"""Python's own meaning of its words holds in kernels: on every backend, and as Python."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

import numpy as np

import hologram as hg
from tests.kernels.test_ways_out import same

X = np.array([0, 1, 2, -3, 0], np.int32)


@hg.func
def counted(tally, x):
    hg.atomic_add(tally, 0, 1)
    return x


@hg.kernel
def deciding(x: hg.Array[hg.i32], out: hg.Array[hg.i32, 2], tally: hg.Array[hg.i32]):
    i = hg.index()
    out[i, 0] = x[i] or 5
    out[i, 1] = x[i] and x[i] * 2
    out[i, 2] = i > 1 and x[i]
    out[i, 3] = x[i] or counted(tally, 7)
    out[i, 4] = x[i] and 0 or 3
    if x[i] and (i < 3 or x[i] < 0):
        out[i, 5] = 1
    if 0 < x[i] < counted(tally, 2):
        out[i, 5] += 10


def test_and_and_or_have_the_value_that_decides(executor: hg.Executor) -> None:
    _, out, tally = same(deciding, executor, 5, X, np.zeros((5, 6), np.int32), np.zeros(1, np.int32))
    want = [[int(x) or 5, int(x and x * 2), int(i > 1 and x), int(x) or 7, 3] for i, x in enumerate(X)]
    assert out[:, :5].tolist() == want
    assert out[:, 5].tolist() == [0, 11, 1, 1, 0]
    assert tally.tolist() == [4]
