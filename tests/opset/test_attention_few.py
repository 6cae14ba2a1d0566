"""Attention of few queries to many keys, by one kernel: every option, dtype and head size, poison, and its launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.dtypes import bf16, f16, f32
from hologram.opset import OPERATIONS
from hologram.opset.tiles.attention import few
from tests.needs import needs_buffers

reference = OPERATIONS["scaled_dot_product_attention"].reference
BOUND = {f32: 1e-5, f16: 2e-3, bf16: 1.6e-2}
SHAPES = {  # batch, heads, heads with keys, queries, keys, elements of a query and of a value
    "nine heads": (1, 9, 3, 1, 64, 64, 64),
    "one key": (2, 2, 2, 1, 1, 32, 32),
    "odd": (3, 8, 1, 2, 333, 40, 96),
    "long": (1, 6, 2, 1, 4096, 128, 128),
    "wide": (2, 4, 4, 5, 130, 256, 256),
    "sixteen": (1, 16, 1, 1, 77, 64, 32),
}
LOOKS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window": 20, "softcap": 0.8},
    "causal window": {"causal": True, "window": 3},
    "bool": {"mask": "bool"},
    "float": {"mask": "float", "scale": 0.2},
    "lengths": {"lengths": True, "causal": True},
    "all": {
        **dict.fromkeys(("lengths", "slopes", "sinks", "causal"), True),
        "mask": "bool",
        "window": 50,
        "softcap": 3.0,
    },
}


def operands(name: str, seed: int = 0) -> list[np.ndarray]:
    batch, heads, own, rows, keys, e, ev = SHAPES[name]
    rng = np.random.default_rng(seed)
    shapes = ((batch, heads, rows, e), (batch, own, keys, e), (batch, own, keys, ev))
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def settings_of(name: str, look: dict[str, Any]) -> dict[str, Any]:
    batch, heads, _, rows, keys, _, _ = SHAPES[name]
    rng = np.random.default_rng(1)
    settings = {**look, "enable_gqa": True}
    if "mask" in look:
        keep = rng.random((batch, 1, rows, keys)) < 0.7
        keep[..., 3 * keys // 4 :] = False  # a cache that is not yet full
        keep[0, 0, 0] = batch < 2  # with a row of which nothing counts
        bias = np.where(keep, rng.standard_normal(keep.shape), -np.inf).astype(np.float32)
        settings["mask"] = keep if look["mask"] == "bool" else bias
    if "lengths" in look:
        settings["lengths"] = rng.integers(0, keys + 1, (batch, 1), dtype=np.int32)
    if "slopes" in look:
        settings["slopes"] = rng.standard_normal(heads).astype(np.float32)
    if "sinks" in look:
        settings["sinks"] = rng.standard_normal(heads).astype(np.float32)
    return settings


@pytest.mark.parametrize("dtype", [f32, f16, bf16], ids=str)
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", SHAPES)
def test_few_queries(name: str, look: str, dtype: Any, executor: hg.Executor) -> None:
    given = [executor.tensor(x).astype(dtype) for x in operands(name)]
    exact = [x.astype(f32).to_numpy().astype(np.float64) for x in given]
    settings = settings_of(name, LOOKS[look])
    told: Any = {n: executor.tensor(x) if isinstance(x, np.ndarray) else x for n, x in settings.items()}
    with executor.profile() as profile:
        found = hg.scaled_dot_product_attention(*given, **told)
    limits = executor.limits
    if limits.own_attention or (dtype is f32 and not limits.software):
        assert len(profile.launches) <= (1 if limits.own_attention else 2)
    wanted = reference(*exact, **settings)
    np.testing.assert_allclose(found.astype(f32).to_numpy(), wanted, rtol=BOUND[dtype], atol=BOUND[dtype])


@pytest.mark.parametrize("turned", [False, True])
def test_operands_lie_as_they_like(turned: bool, executor: hg.Executor) -> None:
    """Positions ahead of heads, as projections give them, and caches of which a part is asked for."""
    q, k, v = operands("odd")
    wanted = reference(*(x.astype(np.float64) for x in (q, k[:, :, 5:300], v[:, :, 5:300])), enable_gqa=True)
    axes = (0, 2, 1, 3) if turned else (0, 1, 2, 3)
    given = [executor.tensor(np.transpose(x, axes).copy()).permute(axes) for x in (q, k, v)]
    found = hg.scaled_dot_product_attention(given[0], *(x[:, :, 5:300] for x in given[1:]), enable_gqa=True)
    np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_what_numbers_are_not_finite_give(executor: hg.Executor) -> None:
    """NaN of a query stays in its row, NaN of a key is in the rows that look at it, infinite scores give NaN."""
    q, k, v = operands("nine heads")
    q[0, 4, 0, 7] = np.nan
    k[0, 2, 9, 1] = np.nan
    k[0, 0, 5] = np.inf
    found = hg.scaled_dot_product_attention(*map(executor.tensor, (q, k, v)), enable_gqa=True).to_numpy()
    rows = [bool(np.isnan(found[0, head]).all()) for head in range(9)]
    assert [rows[n] for n in (3, 4, 5, 6, 7, 8)] == [False, True, False, True, True, True]
    with np.errstate(invalid="ignore"):
        wanted = reference(*(x.astype(np.float64) for x in (q, k, v)), enable_gqa=True)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))


def test_keys_behind_a_length_are_not_read(executor: hg.Executor) -> None:
    needs_buffers(executor, few.BOUND)  # else they are multiplied by 0
    q, k, v = operands("long")
    lengths = np.array([[1000]], np.int64)
    wanted = reference(*(x.astype(np.float64) for x in (q, k, v)), lengths=lengths, enable_gqa=True)
    k[:, :, 1000:], v[:, :, 1000:] = np.nan, np.nan
    # Software adapters multiply f32 by 0 there.
    dtype, bound = (bf16, 2e-2) if executor.limits.software else (f32, 1e-5)
    given = [executor.tensor(x).astype(dtype) for x in (q, k, v)]
    found = hg.scaled_dot_product_attention(*given, lengths=executor.tensor(lengths), enable_gqa=True)
    np.testing.assert_allclose(found.astype(f32).to_numpy(), wanted, rtol=bound, atol=bound)


def test_by_numpy_where_there_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_CPU_WITHOUT", "llvm")
    for name in ("odd", "nine heads"):
        for look in LOOKS.values():
            settings = settings_of(name, look)
            with hg.Executor("cpu") as ex:
                told: Any = {n: ex.tensor(x) if isinstance(x, np.ndarray) else x for n, x in settings.items()}
                found = hg.scaled_dot_product_attention(*map(ex.tensor, operands(name)), **told).to_numpy()
            exact = [x.astype(np.float64) for x in operands(name)]
            np.testing.assert_allclose(found, reference(*exact, **settings), rtol=1e-4, atol=1e-5)
