"""Distributions that are drawn by rejection: the right moments and, where PyTorch has them, derivatives."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import distributions  # noqa: E402

import hologram_torch  # noqa: E402, F401

N = 20_000


def _near(found: float, wanted: float, deviation: float) -> None:
    assert found == pytest.approx(wanted, abs=6 * deviation / math.sqrt(N) + 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("rate", [0.0, 0.5, 9.5, 10.5, 300.0])
def test_poisson(rate: float, dtype: Any) -> None:
    torch.manual_seed(1)
    found = torch.poisson(torch.full((N,), rate, dtype=dtype, device="hologram")).cpu()
    assert found.dtype == dtype
    assert torch.equal(found, found.floor())
    _near(found.double().mean().item(), rate, math.sqrt(rate))
    _near(found.double().var().item(), rate, rate * math.sqrt(2 + 1 / max(rate, 0.5)))


@pytest.mark.parametrize(
    ("count", "p"), [(0, 0.5), (7, 0.0), (7, 1.0), (7, 0.3), (7, 0.9), (60, 0.4), (900, 0.7), (1e6, 0.5)]
)
def test_binomial(count: float, p: float) -> None:
    torch.manual_seed(2)
    one = torch.tensor([[count], [p]], device="hologram")
    found = torch.binomial(*one.expand(2, N)).cpu().double()
    assert torch.equal(found, found.floor())
    assert 0 <= found.min()
    assert found.max() <= count
    variance = count * p * (1 - p)
    _near(found.mean().item(), count * p, math.sqrt(variance))
    _near(found.var().item(), variance, variance * 1.7)


@pytest.mark.parametrize("alpha", [0.05, 0.8, 1.0, 4.0, 200.0])
def test_gamma(alpha: float) -> None:
    torch.manual_seed(3)
    found = torch._standard_gamma(torch.full((N,), alpha, device="hologram")).cpu().double()
    assert found.min() > 0
    _near(found.mean().item(), alpha, math.sqrt(alpha))
    _near(found.var().item(), alpha, alpha * math.sqrt(2 + 6 / alpha))
    # Uniform, if the distribution is right.
    below = torch.special.gammainc(torch.tensor(alpha).double(), found)
    assert torch.quantile(below, 0.5).item() == pytest.approx(0.5, abs=0.02)


def test_dirichlet_and_what_is_made_of_these() -> None:
    torch.manual_seed(4)
    weights = torch.tensor([0.5, 2.0, 1.5], device="hologram")
    drawn = distributions.Dirichlet(weights).sample((N,))
    assert torch.allclose(drawn.sum(-1).cpu(), torch.ones(N), atol=1e-5)
    assert torch.allclose(drawn.mean(0).cpu(), weights.cpu() / 4, atol=0.02)
    assert distributions.Beta(*weights[:2]).sample((N,)).mean().item() == pytest.approx(0.2, abs=0.02)
    counts = distributions.NegativeBinomial(weights[1], weights[2] / 3).sample((N,))
    assert counts.mean().item() == pytest.approx(2.0, abs=0.1)
    for wrong in ([-1.0, 1.0, 1.0], [0.0, 0.0, 0.0]):
        assert torch._sample_dirichlet(torch.tensor(wrong, device="hologram")).isnan().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("alpha", [1e-4, 0.01, 0.5])
def test_shares_of_small_parameters(alpha: float, dtype: Any) -> None:
    torch.manual_seed(5)
    parameters = torch.tensor([alpha, 2 * alpha, 3 * alpha], dtype=dtype, device="hologram")
    found = torch._sample_dirichlet(parameters.expand(N, 3)).cpu().double()
    given = parameters.cpu().double()
    total = given.sum().item()
    for k, own in enumerate((given / total).tolist()):
        variance = own * (1 - own) / (total + 1)
        _near(found[:, k].mean().item(), own, math.sqrt(variance))
        assert found[:, k].var().item() == pytest.approx(variance, rel=0.05)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_derivatives_are_those_of_the_host(dtype: Any) -> None:
    generator = torch.Generator().manual_seed(5)
    alpha, beta = (torch.rand(2, 4000, generator=generator, dtype=dtype) * 6 - 3).exp()
    x = torch._standard_gamma(alpha, generator=generator)
    y = x / (x + torch._standard_gamma(beta, generator=generator))
    y = y.clamp(1e-3, 1 - 1e-3)
    for name, tensors in {
        "_standard_gamma_grad": (alpha, x),
        "_dirichlet_grad": (y, alpha, alpha + beta),
    }.items():
        call = getattr(torch, name)
        found = call(*(t.to("hologram") for t in tensors)).cpu()
        tolerance = 1e-3 if dtype == torch.float32 else 1e-9
        torch.testing.assert_close(found, call(*tensors), rtol=tolerance, atol=tolerance)


def test_a_compiled_function_draws_anew_at_each_call() -> None:
    drawn = torch.compile(lambda rate: torch.poisson(rate), backend="hologram")
    rate = torch.full((1000,), 20.0, device="hologram")
    first, second = drawn(rate), drawn(rate)
    assert not torch.equal(first, second)
    assert first.mean().item() == pytest.approx(20, abs=1)
