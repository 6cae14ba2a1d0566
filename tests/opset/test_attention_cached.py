"""Attention to cached keys and values: blocks that a table names, halves, codes with scales, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.dtypes import bf16, f16, f32
from hologram.opset import OPERATIONS
from hologram.opset.tiles.attention import few

pytestmark = pytest.mark.sampled(3)

reference = OPERATIONS["scaled_dot_product_attention"].reference
SHAPES = {  # heads, heads with keys, queries, blocks a sequence, of so many positions, elements of a key and of a value
    "three to a head": (9, 3, 1, 4, 64, 64, 64),
    "one head": (4, 1, 2, 3, 32, 40, 96),
    "small blocks": (2, 2, 1, 21, 8, 128, 128),
    "large blocks": (8, 2, 4, 2, 192, 16, 8),
    "odd blocks": (6, 2, 3, 5, 20, 64, 32),
    "many queries": (4, 2, 37, 3, 48, 24, 40),
}
LOOKS: dict[str, dict[str, Any]] = {
    "causal": {"causal": True},
    "window": {"causal": True, "window": 19, "softcap": 2.0},
    "mask": {"mask": True},
    "sinks and slopes": {"sinks": True, "slopes": True, "causal": True},
}
CACHES = ("f32", "f16", "bf16", "i8", "i8 and half scales")
LENGTHS = np.array([[150], [0], [7], [96]], np.int32)


def made(name: str, look: str, cache: str) -> tuple[list[Any], dict[str, Any], list[Any]]:
    """Operands, and settings; and the operands as the reference takes them."""
    heads, own, rows, count, block, e, ev = SHAPES[name]
    rng = np.random.default_rng(3)
    batch, blocks = len(LENGTHS), len(LENGTHS) * count + 2
    q = rng.standard_normal((batch, heads, rows, e)).astype(np.float32)
    pools = [rng.standard_normal((blocks, own, block, n)).astype(np.float32) for n in (e, ev)]
    settings: dict[str, Any] = {n: x for n, x in LOOKS[look].items() if n in ("causal", "window", "softcap")}
    for given in ("sinks", "slopes"):
        if given in LOOKS[look]:
            settings[given] = rng.standard_normal(heads).astype(np.float32)
    if "mask" in LOOKS[look]:
        settings["mask"] = rng.random((batch, 1, rows, count * block)) < 0.7
    settings |= {"lengths": np.minimum(LENGTHS, count * block), "enable_gqa": True}
    settings["table"] = rng.permutation(blocks)[: batch * count].reshape(batch, count).astype(np.int32)
    if cache.startswith("i8"):
        scales = rng.uniform(0.001, 0.02, (2, blocks, own, block))
        settings["scales"] = scales.astype(np.float16 if "half" in cache else np.float32)
        pools = [rng.integers(-128, 128, pool.shape).astype(np.int8) for pool in pools]
    return [q, *pools], settings, [q.astype(np.float64), *pools]


def attended(executor: hg.Executor, operands: list[Any], settings: dict[str, Any]) -> np.ndarray:
    told: Any = {n: executor.tensor(x) if isinstance(x, np.ndarray) else x for n, x in settings.items()}
    return hg.scaled_dot_product_attention(*operands, **told).to_numpy()


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", SHAPES)
def test_caches(name: str, look: str, cache: str, executor: hg.Executor) -> None:
    operands, settings, exact = made(name, look, cache)
    given = [executor.tensor(x) for x in operands]
    if cache in ("f16", "bf16"):
        given[1:] = [x.astype({"f16": f16, "bf16": bf16}[cache]) for x in given[1:]]
        exact[1:] = [x.astype(f32).to_numpy() for x in given[1:]]
    exact[1:] = [x.astype(np.float64) for x in exact[1:]]
    with executor.profile() as profile:
        found = attended(executor, given, settings)
    one = SHAPES[name][2] <= 4 and "mask" not in settings and cache not in ("bf16", "i8 and half scales")
    if one and name != "odd blocks" and executor.limits.max_bindings >= few.BOUND:
        assert len(profile.launches) <= 2
    np.testing.assert_allclose(found, reference(*exact, **settings), rtol=2e-5, atol=2e-5)
    assert not found[1].any()  # which has nothing to look at


@pytest.mark.parametrize("cache", ["f16", "i8"])
def test_caches_without_a_table(cache: str, executor: hg.Executor) -> None:
    rng = np.random.default_rng(4)
    q, k, v = (
        rng.standard_normal(s).astype(np.float32) for s in ((2, 6, 2, 32), (2, 3, 77, 32), (2, 3, 77, 40))
    )
    settings: dict[str, Any] = {"enable_gqa": True, "lengths": np.array([[70], [3]]), "causal": True}
    if cache == "i8":
        k, v = (rng.integers(-128, 128, x.shape).astype(np.int8) for x in (k, v))
        settings["scales"] = rng.uniform(0.001, 0.02, (2, 2, 3, 77)).astype(np.float32)
    else:
        k, v = k.astype(np.float16), v.astype(np.float16)
    found = attended(executor, [executor.tensor(x) for x in (q, k, v)], settings)
    wanted = reference(q.astype(np.float64), k.astype(np.float64), v.astype(np.float64), **settings)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def test_blocks_behind_a_length_are_not_read(executor: hg.Executor) -> None:
    """They may not be there; and halves that are infinite, denormal or no numbers arrive as such."""
    operands, settings, _ = made("three to a head", "causal", "f16")
    q, k, v = (x.astype(np.float32) for x in operands)
    seen = np.flatnonzero(LENGTHS[:, 0] > 11)
    k[:, :, 9, 3], v[settings["table"][seen, 0], :, 11, :3] = 3e-6, [np.inf, -np.inf, np.nan]
    k, v = k.astype(np.float16), v.astype(np.float16)
    wanted = reference(q.astype(np.float64), k.astype(np.float64), v.astype(np.float64), **settings)
    given = [executor.tensor(x) for x in (q, k, v)]
    settings["table"] = np.where(np.arange(4) * 64 < settings["lengths"], settings["table"], 1 << 20)
    found = attended(executor, given, settings)
    np.testing.assert_array_equal(np.isnan(found[seen]), np.isnan(wanted[seen]))
    np.testing.assert_array_equal(np.isinf(found[seen]), np.isinf(wanted[seen]))
    np.testing.assert_allclose(found[..., 3:], wanted[..., 3:], rtol=2e-5, atol=2e-5)


def test_by_numpy_where_there_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_CPU_WITHOUT", "llvm")
    for name in ("one head", "large blocks"):
        for cache in ("f32", "i8"):
            operands, settings, exact = made(name, "window", cache)
            with hg.Executor("cpu") as ex:
                found = attended(ex, [ex.tensor(x) for x in operands], settings)
            wanted = reference(*(x.astype(np.float64) for x in exact), **settings)
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_caches_that_cannot_be_are_refused(executor: hg.Executor) -> None:
    operands, settings, _ = made("one head", "causal", "i8")
    q, k, v = (executor.tensor(x) for x in operands)
    table, scales = executor.tensor(settings["table"]), executor.tensor(settings["scales"])
    attend: Any = hg.scaled_dot_product_attention
    with pytest.raises(hg.UnsupportedDType, match="i8 with scales, got f32, i8, i8"):
        attend(q, k, v, table=table)
    with pytest.raises(hg.UnsupportedDType, match="got f32, f32, f32 and scales"):
        attend(q, k.astype("f32"), v.astype("f32"), table=table, scales=scales)
    with pytest.raises(hg.UnsupportedDType, match="table must be integers"):
        attend(q, k, v, table=table.astype("f32"), scales=scales)
    with pytest.raises(hg.ShapeError, match=r"scales \(2, \*\(14, 1, 32\)\) are needed, got"):
        attend(q, k, v, table=table, scales=scales[:, :, :, :5])
    with pytest.raises(hg.ShapeError, match="with a table"):
        attend(q, k, v, table=table[0], scales=scales)
    with pytest.raises(hg.GradientError, match="there is no derivative, wanted: q"):
        hg.grad(lambda q: hg.sum(attend(q, k, v, table=table, scales=scales, enable_gqa=True)))(q)
