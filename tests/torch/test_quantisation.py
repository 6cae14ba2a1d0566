"""Fake quantisation, fixed, learnt and observed, against the CPU; and the modules of training that is aware of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401

aten = torch.ops.aten
NAN = float("nan")


def same(call: Callable[..., Any], *args: Any, **near: Any) -> None:
    found = call(*[a.to("hologram") if isinstance(a, torch.Tensor) else a for a in args])
    want = call(*args)
    both = zip(found, want, strict=True) if isinstance(want, (tuple, list)) else [(found, want)]
    for ours, theirs in both:
        assert ours.device.type == "hologram"
        torch.testing.assert_close(ours.cpu(), theirs, **near)


def numbers(dtype: Any, *shape: int) -> Any:
    torch.manual_seed(0)
    return (torch.randn(shape) * 8).to(dtype)


DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fixed_scales(dtype: Any) -> None:
    x = numbers(dtype, 3, 5, 4)
    edges = torch.tensor([NAN, -0.0, 0.25, 0.75, -1e6, 1e6, 12.7, 12.6], dtype=dtype)
    scales, zeros = torch.rand(5) / 8 + 0.05, torch.randint(-8, 8, (5,), dtype=torch.int32)
    for y in (x, x.transpose(0, 2), x[:0], x[0, 0, 0], edges):
        same(lambda t: aten.fake_quantize_per_tensor_affine_cachemask(t, 0.1, 3, 0, 255), y)
        same(lambda t: aten.fake_quantize_per_tensor_affine_cachemask(t, 0.5, -1, -128, 127), y)
    same(lambda t, s, z: torch.fake_quantize_per_tensor_affine(t, s, z, -8, 7), x, scales[:1], zeros[:1])
    for on in (0, 1):
        same(
            lambda t, s, z, e: aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(t, s, z, e, -8, 7),
            x, scales[:1], zeros[:1], torch.tensor([on]),
        )  # fmt: skip
    for z in (zeros, zeros.float()):
        same(lambda t, s, z: aten.fake_quantize_per_channel_affine_cachemask(t, s, z, 1, -8, 7), x, scales, z)


def test_gradients_pass_where_numbers_are_in_range() -> None:
    scales, zeros = torch.rand(5) + 0.1, torch.zeros(5, dtype=torch.int32)

    def slope(call: Callable[..., Any], *rest: Any) -> Callable[..., Any]:
        def run(x: Any, *rest: Any) -> Any:
            x = x.clone().requires_grad_()
            call(x, *rest).square().sum().backward()
            return x.grad

        return run

    x = numbers(torch.float32, 3, 5)
    same(slope(lambda t: torch.fake_quantize_per_tensor_affine(t, 0.1, 3, 0, 100)), x)
    same(slope(lambda t, s, z: torch.fake_quantize_per_channel_affine(t, s, z, 1, -8, 7)), x, scales, zeros)


@pytest.mark.parametrize("zero", [0.0, 2.3, 2.5, -3.7, 40.0])
def test_learnt_scales(zero: float) -> None:
    def run(channels: bool) -> Callable[..., Any]:
        def call(x: Any, scale: Any, point: Any) -> Any:
            given = [t.clone().requires_grad_() for t in (x, scale, point)]
            if channels:
                y = torch._fake_quantize_learnable_per_channel_affine(*given, 1, -8, 7, 0.5)
            else:
                y = torch._fake_quantize_learnable_per_tensor_affine(*given, -8, 7, 0.5)
            (y * torch.arange(y.numel(), device=y.device).reshape(y.shape)).sum().backward()
            return [y.detach(), *(t.grad for t in given)]

        return call

    x = numbers(torch.float32, 3, 5)
    same(run(False), x, torch.tensor([0.7]), torch.tensor([zero]), rtol=1e-4, atol=1e-4)
    same(run(True), x, torch.rand(5) + 0.2, torch.full((5,), zero), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_observed_extremes(rows: bool, symmetric: bool) -> None:
    count = 5 if rows else 1

    def call(x: Any) -> Any:
        device = x.device
        on = torch.ones(1, dtype=torch.long, device=device)
        state = [torch.full((count,), v, device=device) for v in (float("inf"), -float("inf"), 1.0)]
        zero = torch.zeros(count, dtype=torch.int32, device=device)
        found = []
        for k in range(3):
            found.append(
                torch.fused_moving_avg_obs_fake_quant(
                    x * (k + 1), on, on * (k > 0), *state, zero, 0.1, -128, 127, 0, rows, symmetric
                )
            )
        return [*found, *state, zero]

    same(call, numbers(torch.float32, 5, 3, 2))


def test_training_aware_of_quantisation() -> None:
    from torch.ao.quantization import FakeQuantize, FusedMovingAvgObsFakeQuantize
    from torch.ao.quantization.observer import MovingAverageMinMaxObserver

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        FusedMovingAvgObsFakeQuantize(), torch.nn.Linear(6, 8),
        FakeQuantize(MovingAverageMinMaxObserver, quant_min=0, quant_max=255), torch.nn.ReLU(),
    )  # fmt: skip
    other, x = copy.deepcopy(model).to("hologram"), torch.randn(4, 6)
    for _ in range(3):
        model(x).square().sum().backward()
        other(x.to("hologram")).square().sum().backward()
    torch.testing.assert_close(other[1].weight.grad.cpu(), model[1].weight.grad)
    for (name, ours), theirs in zip(other.named_buffers(), model.buffers(), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, msg=name)


def test_ranges_that_are_refused() -> None:
    x = torch.zeros(3, device="hologram")
    with pytest.raises(RuntimeError, match="zero_point"):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 300, 0, 255)
    with pytest.raises(RuntimeError, match="quant_min"):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 5, 2)
