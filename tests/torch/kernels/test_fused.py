"""Kernels of several operations whose numbers change from call to call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import hologram as hg  # noqa: E402
from hologram_torch.kernels.fused import FEW_VALUES, fused, told  # noqa: E402

NUMBERS = (0.3, 0.7, 0.5, -0.5, -0.0, 0.0, 1.0, math.inf, math.nan, 1e-3, 0.49)
F = torch.nn.functional


def _delta(number: float) -> float:
    """A positive number, of which alone Huber's loss is."""
    return abs(number) + 0.1 if math.isfinite(number) else 2.0


CALLS: dict[str, Callable[..., Any]] = {
    "lerp": torch.lerp,
    "addcmul": lambda x, y, v: torch.addcmul(x, y, x, value=v),
    "addcmul_": lambda x, y, v: x.clone().addcmul_(y, x, value=v),
    "addcdiv": lambda x, y, v: torch.addcdiv(x, x, y, value=v),
    "huber_loss": lambda x, y, v: F.huber_loss(x, y, delta=_delta(v), reduction="none"),
    "mean of huber_loss": lambda x, y, v: F.huber_loss(x, y, delta=_delta(v)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_changing_numbers_give_what_the_host_gives(name: str, dtype: Any) -> None:
    x, y = (torch.linspace(low, 3, 33).to(dtype) for low in (-3, -2))
    for number in NUMBERS:
        wanted, found = (CALLS[name](x.to(d), y.to(d), number) for d in ("cpu", "hologram"))
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found.cpu(), wanted, equal_nan=True)


def test_derivatives_follow_changing_numbers() -> None:
    start = torch.linspace(-3, 3, 21)
    for delta in (0.2, 0.4, 0.8, 1.6):
        slopes = []
        for device in ("cpu", "hologram"):
            x = start.clone().to(device).requires_grad_()
            F.huber_loss(x, x.detach() * 0.5, delta=delta).backward()
            slopes.append(x.grad.cpu())
        torch.testing.assert_close(*slopes)


def test_other_numbers_compile_nothing_after_a_few(executor: hg.Executor) -> None:
    traced: dict[str, int] = {"told": 0, "fused": 0}

    def counting(name: str) -> Callable[..., Any]:
        def scaled(x: Any, factor: float) -> Any:
            traced[name] += 1
            return x * factor + 1

        return scaled

    functions = {"told": told(counting("told")), "fused": fused(counting("fused"))}
    x = executor.tensor([1.0, 2.0])
    for name, function in functions.items():
        for k in range(8):
            assert function(x, 0.5 * k).tolist() == [0.5 * k + 1, k + 1]
        function(x, 0.0)
        assert traced[name] == {"told": FEW_VALUES + 1, "fused": 8}[name]


def test_zeros_are_told_apart_by_their_signs(executor: hg.Executor) -> None:
    function = told(lambda x, number: x * number)
    x = executor.tensor([1.0])
    signs = [math.copysign(1.0, function(x, number).item()) for number in (0.0, -0.0, 0.0, -0.0)]
    assert signs == [1.0, -1.0, 1.0, -1.0]


@pytest.mark.parametrize("kind", [torch.int32, torch.complex64])
def test_other_kinds_of_numbers(kind: Any) -> None:
    x, y = (torch.arange(low, low + 5).to(kind) for low in (1, 3))
    for value in (2, 3, 4, 5) if kind is torch.int32 else (2, 0.5, 1 + 2j, 0.25, 0.75):
        wanted, found = (torch.addcmul(x.to(d), y.to(d), y.to(d), value=value) for d in ("cpu", "hologram"))
        torch.testing.assert_close(found.cpu(), wanted)
