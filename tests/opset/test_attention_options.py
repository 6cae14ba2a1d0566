"""Windows, lengths, slopes, sinks and soft caps of attention: block by block, with gradients, in linear memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.errors import GradientError, UnsupportedDType
from hologram.opset import OPERATIONS
from tests.opset.test_attention_blocks import by_blocks

OPTIONS: dict[str, dict[str, Any]] = {
    "window": {"window": 5},
    "causal window": {"causal": True, "window": 4},
    "soft cap": {"softcap": 0.7, "causal": True},
    "lengths": {"lengths": np.array([[30], [0]], np.int32), "causal": True},
    "lengths and window": {"lengths": np.array([[41], [7]], np.int64), "window": 9},
    "slopes": {"slopes": np.array([0.5, 0.1, -0.2, 1.0], np.float32)},
    "sinks": {"sinks": np.array([0.5, -np.inf, 3.0, -1.0], np.float32), "causal": True},
    "all": {
        "lengths": np.array([[41], [38]], np.int32),
        "slopes": np.array([0.5, 0.1, -0.2, 1.0], np.float32),
        "sinks": np.array([0.5, 0.0, 3.0, -1.0], np.float32),
        "window": 6,
        "softcap": 2.0,
        "causal": True,
    },
}
ARRAYS = ("lengths", "slopes", "sinks")
reference = OPERATIONS["scaled_dot_product_attention"].reference


def numeric(
    given: list[np.ndarray], number: int, cotangent: np.ndarray, settings: dict[str, Any]
) -> np.ndarray:
    """The cotangent of an operand by differences, along 12 of its elements, others NaN."""
    found = np.full(given[number].shape, np.nan)
    for at in np.random.default_rng(1).choice(found.size, min(12, found.size), replace=False):
        values = []
        for step in (1e-6, -1e-6):
            moved = [x.astype(np.float64) for x in given]
            moved[number].reshape(-1)[at] += step
            values.append((reference(*moved[:3], **settings | {"sinks": moved[3]}) * cotangent).sum())
        found.reshape(-1)[at] = (values[0] - values[1]) / 2e-6
    return found


@pytest.mark.parametrize("block", [64, 1500, 1 << 20])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", OPTIONS)
def test_options_and_their_gradients(
    name: str, masked: bool, block: int, executor: hg.Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_blocks(monkeypatch, block)
    rng = np.random.default_rng(block)
    shapes = ((2, 4, 33, 8), (2, 2, 41, 8), (2, 2, 41, 6))
    given = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    given.append(OPTIONS[name].get("sinks", np.full(4, -np.inf, np.float32)))
    cotangent = rng.standard_normal((2, 4, 33, 6)).astype(np.float32)
    settings = {"enable_gqa": True, **OPTIONS[name], "mask": rng.random((33, 41)) < 0.8 if masked else None}
    with hg.Executor(executor.backend) as ex:  # one of its own: plans are kept
        told: Any = {n: ex.tensor(x) if isinstance(x, np.ndarray) else x for n, x in settings.items()}

        def attend(q: Any, k: Any, v: Any, sinks: Any) -> Any:
            return hg.scaled_dot_product_attention(q, k, v, **told | {"sinks": sinks})

        tensors = [ex.tensor(x) for x in given]
        found = attend(*tensors).to_numpy()
        wanted = range(4) if "sinks" in OPTIONS[name] else range(3)
        slopes = hg.grad(lambda *x: hg.sum(attend(*x) * ex.tensor(cotangent)), argnums=tuple(wanted))(
            *tensors
        )
        gradients = [g.to_numpy() for g in slopes]
    exact = [x.astype(np.float64) for x in given]
    np.testing.assert_allclose(
        found, reference(*exact[:3], **settings | {"sinks": exact[3]}), rtol=1e-4, atol=1e-5
    )
    for number, mine in zip(wanted, gradients, strict=True):
        theirs = numeric(given, number, cotangent, settings)
        at = np.isfinite(theirs)
        np.testing.assert_allclose(mine[at], theirs[at], rtol=2e-3, atol=5e-5, err_msg=str(number))


@pytest.mark.parametrize("settings", [{"causal": True, "window": 256}, {"window": 128, "softcap": 5.0}])
def test_memory_of_a_window_is_linear_and_its_work_too(settings: Any) -> None:
    def peak(length: int) -> int:
        with hg.Executor("cpu") as ex:
            q, k, v = (ex.tensor(np.zeros((2, length, 16), np.float32)) for _ in range(3))
            loss = lambda *x: hg.sum(hg.scaled_dot_product_attention(*x, **settings))  # noqa: E731
            hg.grad(loss, argnums=(0, 1, 2))(q, k, v)
            return ex.memory_stats()["peak"]

    peaks = [peak(length) for length in (2048, 4096, 8192)]
    assert peaks[2] - peaks[1] < 3 * (peaks[1] - peaks[0]), peaks


@pytest.mark.parametrize("rows", [1, 40])
def test_what_bounds_nothing_changes_nothing(rows: int, executor: hg.Executor) -> None:
    rng = np.random.default_rng(rows)
    q, k = (executor.tensor(rng.standard_normal((1, 2, n, 16)).astype(np.float32)) for n in (rows, 60))
    wanted = hg.scaled_dot_product_attention(q, k, k, causal=True).to_numpy()
    bounds: Any = ({"window": 1 << 31}, {"window": 1 << 40}, {"softcap": float("inf")})
    for options in bounds:
        found = hg.scaled_dot_product_attention(q, k, k, causal=True, **options).to_numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_what_options_mean_nothing_is_refused(executor: hg.Executor) -> None:
    q = executor.zeros((1, 2, 3, 8))
    attend = hg.scaled_dot_product_attention
    for window in (0, -1, 1.5):
        with pytest.raises(ValueError, match="window must be a positive integer"):
            attend(q, q, q, window=window)
    with pytest.raises(ValueError, match="softcap must be positive"):
        attend(q, q, q, softcap=0.0)
    with pytest.raises(UnsupportedDType, match="the lengths must be integers"):
        attend(q, q, q, lengths=executor.zeros((1, 1)))
    mask = executor.zeros((3, 3))
    with pytest.raises(GradientError, match="no derivative with respect to the mask"):
        hg.grad(lambda m: hg.sum(attend(q, q, q, m, window=2)))(mask)
