"""Counts: of parts of an interval and of numbers, for every dtype that a device of PyTorch's takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401

WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def parts(x: np.ndarray, bins: int, low: int, high: int) -> np.ndarray:
    """By the rule of PyTorch's CUDA: quotients of integers, and the last part has its end."""
    inside = [int(v) for v in x.reshape(-1) if low <= v <= high]
    places = [min((v - low) * bins // (high - low), bins - 1) for v in inside]
    return np.bincount(places, minlength=bins)


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
@pytest.mark.parametrize(
    ("bins", "low", "high"), [(8, 0, 7), (3, 5, 100), (100, -3, 90), (1, 0, 1), (7, 20, 21)]
)
def test_histograms_of_integers(dtype: Any, bins: int, low: int, high: int) -> None:
    low = max(low, torch.iinfo(dtype).min)
    x = torch.randint(0 if dtype is torch.uint8 else -20, 110, (7, 41, 2)).to(dtype).transpose(0, 1)
    found = torch.histc(x.to("hologram"), bins, low, high)
    assert found.dtype == dtype
    want = torch.from_numpy(parts(x.numpy(), bins, low, high)).to(dtype)
    assert torch.equal(found.cpu(), want)


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_bounds_that_are_not_given_are_those_of_the_elements(dtype: Any) -> None:
    x = torch.tensor([3, 9, 4, 4, 12, 3], dtype=dtype, device="hologram")
    assert torch.histc(x, 3).tolist() == parts(x.cpu().numpy(), 3, 3, 12).tolist()
    assert torch.histc(x[2:4], 2).tolist() == [0, 2]  # from 3 to 5
    assert torch.histc(x[:0], 2).tolist() == [0, 0]
    assert torch.histc(x[0], 2).tolist() == [0, 1]
    assert torch.histc(x, 4, 2.5, 6.9).tolist() == parts(x.cpu().numpy(), 4, 2, 6).tolist()


def test_bounds_far_apart() -> None:
    x = torch.tensor([-(2**63), -1, 0, 2**62, 2**63 - 1], device="hologram")
    assert torch.histc(x - (x == -1).long() * 2**60, 2).tolist() == [2, 3]
    assert torch.histc(x, 4, -(2**40), 2**40).tolist() == [0, 1, 1, 0]
    assert torch.histc(torch.tensor([-128, 127], dtype=torch.int8, device="hologram"), 2).tolist() == [1, 1]


def test_histograms_that_are_refused() -> None:
    x = torch.tensor([3, 9], device="hologram")
    with pytest.raises(NotImplementedError, match="Bool"):
        torch.histc(x > 0, 4)
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        torch.histc(x, 4, 5, 2)
    with pytest.raises(RuntimeError, match="bins must be > 0"):
        torch.histc(x, 0)


def test_histograms_in_compiled_functions() -> None:
    torch.compiler.reset()
    x = torch.randint(0, 6, (50,), dtype=torch.int32)
    found = torch.compile(lambda x: torch.histc(x, 6, 0, 5) + 1, backend="hologram")(x.to("hologram"))
    assert found.tolist() == [n + 1 for n in parts(x.numpy(), 6, 0, 5)]


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
@pytest.mark.parametrize("weights", [None, torch.float32, torch.float64, torch.float16, torch.int32], ids=str)
@pytest.mark.parametrize("minlength", [0, 3, 200])
def test_counts_of_numbers(dtype: Any, weights: Any, minlength: int) -> None:
    for n in (0, 1, 30_000):
        x = torch.randint(0, 90, (2 * n,)).to(dtype)[::2]
        given = None if weights is None else torch.randint(-4, 5, (n,)).to(weights)
        want = torch.bincount(x, given, minlength)
        found = torch.bincount(x.to("hologram"), None if given is None else given.to("hologram"), minlength)
        assert found.dtype == want.dtype
        assert torch.equal(found.cpu(), want)
