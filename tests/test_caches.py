"""Kernels on disk: a second process compiles nothing, computes the same bits, and no damage reaches a result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.compiler import digest
from hologram.foundation import store
from hologram.foundation.store import CacheStats

# Prints how much was compiled, and the bits of results that are no numbers of the cache's own making.
WORK = """
import hashlib, json, sys
import numpy as np
import hologram as hg

@hg.jit
def fused(x, a, b):
    y = hg.gelu(hg.matmul(x, a) + b)
    return hg.layer_norm(y) * 2.0 + hg.sum(hg.exp(-x), axis=1, keepdims=True), hg.softmax(x * x, dim=-1)

with hg.Executor(backend=sys.argv[1]) as ex:
    x = ex.tensor(np.random.default_rng(0).standard_normal((48, 300)).astype(np.float32))
    a, b = ex.tensor(np.ones((300, 40), np.float32)), ex.tensor(np.full(40, 0.5, np.float32))
    results = [
        hg.softmax(x, dim=-1), hg.softmax(x, dim=0), hg.sum(x), hg.mean(x, axis=0), hg.tanh(x) * x + 1.5,
        hg.gelu(x[:, ::2]), hg.argmax(x, axis=1), hg.cumsum(x, axis=1), hg.sort(x, axis=1), hg.matmul(x, a) + b,
        hg.linear(x, a.permute(1, 0), b), hg.abs(x).astype(hg.i8) * 7, hg.exp(x.astype(hg.f16)),
        hg.where(x > 0, x, 0.0), *fused(x, a, b),
    ]
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(r.to_numpy()).tobytes() for r in results)).hexdigest()
    stats = ex.cache_stats()
print(json.dumps({"digest": digest, **{name: getattr(stats, name) for name in stats.__dataclass_fields__}}))
"""


def start(backend: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORK, backend],
        env=os.environ | {"HOLOGRAM_CACHE_DIR": str(folder)} | environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return json.loads(out)


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def folder(executor: hg.Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for a backend that is here; what a process compiles once is in another."""
    hg.softmax(executor.ones((8, 100)), dim=-1).to_numpy()
    monkeypatch.setenv("HOLOGRAM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_second_process_compiles_nothing_and_gets_the_same_bits(backend: str, folder: Path) -> None:
    first = finish(start(backend, folder))
    second = finish(start(backend, folder))
    without = finish(start(backend, folder, HOLOGRAM_CACHE="0"))
    assert first["compiled"] == first["stored"] == first["misses"] > 10
    assert (second["compiled"], second["misses"], second["hits"]) == (0, 0, first["compiled"] + first["hits"])
    assert without["compiled"] >= first["compiled"]
    assert without["hits"] == without["stored"] == 0
    assert first["digest"] == second["digest"] == without["digest"]


@pytest.mark.slow
def test_four_processes_may_fill_one_directory_at_once(backend: str, folder: Path) -> None:
    found = [finish(process) for process in [start(backend, folder) for _ in range(4)]]
    assert len({one["digest"] for one in found}) == 1
    assert all(one["compiled"] + one["hits"] == found[0]["compiled"] + found[0]["hits"] for one in found)
    assert sum(one["corrupt"] for one in found) == 0
    assert finish(start(backend, folder))["compiled"] == 0
    assert not [path for path in entries(folder) if path.name.startswith("writing-")]


def softmax(backend: str, x: np.ndarray) -> np.ndarray:
    """Computed by a new executor, which holds no kernels yet."""
    with hg.Executor(backend=backend) as ex:
        return hg.softmax(ex.tensor(x), dim=-1).to_numpy()


def stats(backend: str) -> CacheStats:
    """Of its kernels, and of what was measured of adapters."""
    both = [store.shared().stats(kind) for kind in (backend, "conduct")]
    return CacheStats(
        **{name: sum(getattr(s, name) for s in both) for name in CacheStats.__dataclass_fields__}
    )


def counted(backend: str, before: CacheStats) -> CacheStats:
    """What happened since."""
    after = stats(backend)
    names = CacheStats.__dataclass_fields__
    return CacheStats(**{name: getattr(after, name) - getattr(before, name) for name in names})


def test_any_damaged_entry_is_made_anew_and_the_result_is_right(backend: str, folder: Path) -> None:
    x = np.random.default_rng(1).standard_normal((8, 100)).astype(np.float32)
    expected = softmax(backend, x)
    kept = entries(folder)
    assert kept
    sound = [path.read_bytes() for path in kept]
    longest = max(map(len, sound))
    for position in range(0, longest, longest // 24):
        for path, data in zip(kept, sound, strict=True):
            n = position % len(data)
            path.write_bytes(data[:n] + bytes([data[n] ^ 0x55]) + data[n + 1 :])
        before = stats(backend)
        assert np.array_equal(softmax(backend, x), expected)
        since = counted(backend, before)
        assert since.corrupt == since.compiled == since.stored == len(kept)
    before = stats(backend)
    assert np.array_equal(softmax(backend, x), expected)
    assert counted(backend, before) == CacheStats(hits=len(kept))


def test_an_entry_whose_content_is_unusable_is_made_anew(backend: str, folder: Path, monkeypatch) -> None:
    """As one could be that a fault of hologram's own wrote, checksum and all."""
    x = np.random.default_rng(2).standard_normal((8, 100)).astype(np.float32)
    expected = softmax(backend, x)
    kept = store.Store.put
    for content in (b"", b"[]", b"{}", b"nonsense\n", b"\xff\xfe"):
        with monkeypatch.context() as patch:
            patch.setattr(
                store.Store, "put", lambda s, kind, key, _, content=content: kept(s, kind, key, content)
            )
            for path in entries(folder):
                path.unlink()
            assert np.array_equal(softmax(backend, x), expected)
        before = stats(backend)
        assert np.array_equal(softmax(backend, x), expected)
        since = counted(backend, before)
        assert since.corrupt == since.compiled > 0


def test_a_kernel_does_without_a_directory(backend: str, folder: Path) -> None:
    folder.write_text("in the way")
    x = np.random.default_rng(3).standard_normal((4, 50)).astype(np.float32)
    before = stats(backend)
    first, second = softmax(backend, x), softmax(backend, x)
    assert np.array_equal(first, second)
    assert counted(backend, before).compiled > 0
    assert counted(backend, before).stored == 0
    assert str(folder) in store.shared().problem


def test_without_source_files_nothing_is_kept(backend: str, folder: Path, monkeypatch) -> None:
    """As in an application frozen into one file: no telling what generated an entry."""
    monkeypatch.setattr(digest, "PACKAGE", folder / "absent")
    for kept in (digest.compiler_digest, digest.generator_digest):
        kept.cache_clear()
    x = np.random.default_rng(4).standard_normal((4, 50)).astype(np.float32)
    before = store.shared().stats(backend)
    assert np.array_equal(softmax(backend, x), softmax(backend, x))
    since = store.shared().stats(backend)
    assert since == replace(before, compiled=before.compiled + 2)
    assert not (folder / store.FORMAT / backend).exists()
    for kept in (digest.compiler_digest, digest.generator_digest):
        kept.cache_clear()


def test_limits_are_spelled_alike_in_every_process_and_apart_from_others(executor: hg.Executor) -> None:
    limits = executor.limits
    again = replace(limits, dtypes=frozenset(sorted(limits.dtypes, key=str, reverse=True)))
    others = [
        replace(limits, dtypes=limits.dtypes - {hg.f16}),
        replace(limits, max_workgroup_threads=limits.max_workgroup_threads // 2),
        replace(limits, software=not limits.software),
        replace(limits, tile_dtypes=frozenset()),
    ]
    assert again.text == limits.text
    assert len({limits.text, *(other.text for other in others)}) == 5
