"""Random numbers of the device: reproducible, of the right distributions, and refused parameters."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

pytest.importorskip("torch")
import torch

import hologram_torch  # noqa: F401

N = 40_000


def _made(fill: str, *args: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return getattr(torch.empty(N, device="hologram", dtype=dtype), fill)(*args)


DISTRIBUTIONS: dict[str, tuple[tuple[float, ...], float, float]] = {
    "uniform_": ((-1.0, 3.0), 1.0, 4 / math.sqrt(12)),
    "normal_": ((1.0, 2.0), 1.0, 2.0),
    "exponential_": ((2.0,), 0.5, 0.5),
    "geometric_": ((0.25,), 4.0, math.sqrt(12)),
    "bernoulli_": ((0.3,), 0.3, math.sqrt(0.21)),
    "random_": ((10,), 4.5, math.sqrt(99 / 12)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_mean_and_deviation(name: str, dtype: torch.dtype) -> None:
    arguments, mean, deviation = DISTRIBUTIONS[name]
    torch.manual_seed(1)
    found = _made(name, *arguments, dtype=dtype).cpu().double()
    assert found.mean().item() == pytest.approx(mean, abs=6 * deviation / math.sqrt(N) + 0.01)
    assert found.std().item() == pytest.approx(deviation, rel=0.05)


@pytest.mark.parametrize("name", [*DISTRIBUTIONS, "log_normal_", "cauchy_"])
def test_a_seed_starts_the_stream_anew(name: str) -> None:
    arguments = DISTRIBUTIONS.get(name, ((),))[0]
    torch.manual_seed(7)
    first, second = _made(name, *arguments), _made(name, *arguments)
    torch.manual_seed(7)
    assert torch.equal(_made(name, *arguments), first)
    assert not torch.equal(first, second)


def test_integers_reach_their_whole_range() -> None:
    torch.manual_seed(2)
    assert set(torch.randint(-2, 3, (1000,), device="hologram").tolist()) == {-2, -1, 0, 1, 2}
    wide = torch.randint(-(2**62), 2**62, (1000,), device="hologram")
    assert wide.min() < -(2**61)
    assert wide.max() > 2**61
    assert set(_made("random_", dtype=torch.bool).tolist()) == {False, True}
    assert _made("random_", dtype=torch.uint8).max().item() == 255


def test_permutations_and_choices() -> None:
    assert sorted(torch.randperm(1000, device="hologram").tolist()) == list(range(1000))
    weights = torch.tensor([[0.0, 1.0, 3.0], [2.0, 0.0, 0.0]], device="hologram")
    drawn = torch.multinomial(weights, 4000, replacement=True)
    assert (drawn[0] == 2).float().mean().item() == pytest.approx(0.75, abs=0.04)
    assert drawn[1].unique().tolist() == [0]
    assert sorted(torch.multinomial(weights[0], 2).tolist()) == [1, 2]


WRONG: dict[str, Callable[[torch.Tensor], object]] = {
    "uniform": lambda x: x.uniform_(3, 1),
    "normal": lambda x: x.normal_(0, -1),
    "exponential": lambda x: x.exponential_(-1.0),
    "geometric": lambda x: x.geometric_(0),
    "bernoulli": lambda x: x.bernoulli_(1.5),
    "random": lambda x: x.random_(3, 3),
    "multinomial": lambda x: torch.multinomial(x - 2, 1),
    "randperm": lambda x: torch.randperm(-1, device=x.device),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_parameters_are_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match="hologram"):
        WRONG[name](torch.ones(3, device="hologram"))
    with pytest.raises(RuntimeError):
        WRONG[name](torch.ones(3))
