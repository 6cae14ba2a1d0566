"""Ctrl-C while a test computes, and whether everything works afterwards."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.config import config

ENDLESS = 2_000_000_000  # turns: seconds at least


@hg.kernel
def halving(o: hg.Array[hg.f32], turns: hg.i32):
    i = hg.index()
    v, k = o[i], 0
    while k < turns:
        v = v * 0.5 + 1.0
        k += 1
    o[i] = v


@contextmanager
def interrupted(after_s: float = 0.3, within_s: float = 1) -> Iterator[None]:
    """Ctrl-C while the block runs, which raises KeyboardInterrupt soon."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after_s, send)
    timer.start()
    try:
        yield
        time.sleep(10)
    except KeyboardInterrupt:
        slower = 1 if config.cpu_optimise else 4
        assert time.monotonic() - sent[0] < within_s * slower
    else:
        pytest.fail("Ctrl-C was not heard at all")


def works(executor: hg.Executor) -> None:
    """Launches of many kinds write every element of memory that was poisoned before, each time."""
    x = np.arange(1, 100_001, dtype=np.float32)
    rows = (x % 7).reshape(400, 250)
    given, square = executor.tensor(x), executor.tensor(rows)
    joined = hg.jit(lambda a: hg.sqrt(a * 2) + hg.flip(a))
    turned = (rows @ rows.T, np.cumsum(rows, 1), np.sort(rows, 1), rows.sum(1))
    for turn in range(10):
        poison = [executor.full(n, float("nan")) for n in (100_000, 160_000, 400)]
        del poison  # whose memory the results get
        np.testing.assert_array_equal((given + turn).to_numpy(), x + turn)
        np.testing.assert_array_equal((square @ square.T).to_numpy(), turned[0])
        np.testing.assert_array_equal(hg.cumsum(square, 1).to_numpy(), turned[1])
        np.testing.assert_array_equal(hg.sort(square, 1).to_numpy(), turned[2])
        np.testing.assert_array_equal(square.sum(1).to_numpy(), turned[3])
        np.testing.assert_allclose(joined(given).to_numpy(), np.sqrt(x * 2) + x[::-1], rtol=1e-6)
