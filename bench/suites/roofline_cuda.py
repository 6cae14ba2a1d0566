"""As roofline, of the CUDA backend."""

from __future__ import annotations

from functools import partial

from bench.suites import Suite
from bench.suites.roofline import own_rows, rows

SHARE = 0.92  # of the bandwidth of copies
SUITE = Suite("roofline-cuda", "cuda", "hologram", (), rows, partial(own_rows, backend="cuda", share=SHARE))
