"""The CPU's products of few rows with packed weights, on every way they can go."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.backends.cpu import device
from hologram.backends.cpu.packed import kernel
from hologram.compiled.machine_code import engine
from hologram.opset.packed.gguf import READERS
from tests.packed.test_packed import blocks, exact


@pytest.mark.parametrize("way", ["pairs", "without AVX2", "without a compiler"])
@pytest.mark.parametrize("kind", READERS)
def test_every_way_multiplies_alike(kind: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "without AVX2":
        monkeypatch.setattr(engine.shared_engine(), "adds_pairs", False)
    elif way == "without a compiler":
        monkeypatch.setattr(device, "_compiles", lambda: False)
    kernel._code.cache_clear()
    rows, columns = 67, 768
    data = blocks(kind, rows, columns, 11, tame=True)
    x = np.random.default_rng(12).standard_normal((6, columns), dtype=np.float32)
    weights = exact(kind, data).astype(np.float64)
    with hg.Executor("cpu") as executor:
        packed = hg.Packed.from_gguf(data, kind, (rows, columns), device=executor)
        found = [packed.linear(executor.tensor(x[:count])).to_numpy() for count in (1, 4, 6)]
    kernel._code.cache_clear()
    room = np.abs(x).astype(np.float64) @ np.abs(weights).T * 2.0**-14
    for count, result in zip((1, 4, 6), found, strict=True):
        assert np.all(np.abs(result - x[:count] @ weights.T) <= room[:count])


def test_work_that_is_shared_out_is_all_done() -> None:
    """Rows of weights in slices of all threads, of which none may be left."""
    rows, columns = 5003, 256
    data = blocks("Q4_K", rows, columns, 13, tame=True)
    x = np.random.default_rng(14).standard_normal((3, columns), dtype=np.float32)
    with hg.Executor("cpu") as executor:
        packed = hg.Packed.from_gguf(data, "Q4_K", (rows, columns), device=executor)
        out = executor.full((3, rows), float("nan"))
        out[...] = packed.linear(executor.tensor(x))
        weights = exact("Q4_K", data)
        assert np.all(np.abs(out.to_numpy() - x @ weights.T) <= np.abs(x) @ np.abs(weights).T * 2.0**-14)
