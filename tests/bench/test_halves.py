"""Products and attention of 16 bits have a time only where they are right; here on the CPU."""

from __future__ import annotations

import pytest

import hologram as hg
from bench.suites import halves
from hologram.benchmark.timing import QUICK

pytest.importorskip("torch")


def test_both_sides_are_right_and_timed() -> None:
    with hg.Executor("cpu") as executor:
        found = list(halves.beside_torch(executor, "cpu", QUICK, (64,), (2, 32, 16)))
    assert [r.row for r in found] == [
        f"{w} {d}" for d in ("f16", "bf16") for w in ("matmul", "attention, causal")
    ]
    assert all(r.ours_us and r.peers_us["torch"] and not r.missing for r in found)


def test_what_is_wrong_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hg, "matmul", lambda a, b: hg.Tensor.__add__(a, b))
    with hg.Executor("cpu") as executor:
        found = next(halves.beside_torch(executor, "cpu", QUICK, (64,), (2, 32, 16)))
    assert found.ours_us is None
    assert "off by" in found.missing["hologram"]
