"""Gradients of normalisations are PyTorch's, in every dtype, where there is nothing to normalise too."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("torch")
import torch
from torch import nn
from torch.nn import functional

import hologram_torch  # noqa: F401

TOLERANCES = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 4e-2, torch.bfloat16: 2e-1}
SHAPES = (
    ((3, 5, 7), (7,)),
    ((3, 5, 7), (5, 7)),
    ((4, 33), (33,)),
    ((7,), (7,)),
    ((0, 7), (7,)),
    ((2, 0), (0,)),
)


def gradients(device: str, cotangent: torch.Tensor, *given: Any) -> list[torch.Tensor]:
    """The result and the gradients of a layer norm of x, its weight and its bias, of those that there are."""
    leaves: list[Any] = [v if v is None else v.to(device).detach().requires_grad_() for v in given]
    x, weight, bias = leaves
    y = functional.layer_norm(x, weight.shape if weight is not None else x.shape[-1:], weight, bias)
    y.backward(cotangent.to(device))
    return [y.detach().cpu(), *(v.grad.cpu() for v in (x, weight, bias) if v is not None)]


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize(("shape", "last"), SHAPES)
@pytest.mark.parametrize("parts", [0, 1, 2])
def test_layer_norm(dtype: torch.dtype, shape: tuple[int, ...], last: tuple[int, ...], parts: int) -> None:
    if parts == 0 and len(last) > 1:
        last = last[-1:]
    x = torch.randn(*shape[::-1], dtype=dtype).permute(*range(len(shape))[::-1])  # with other strides
    weight = torch.randn(last, dtype=dtype) if parts else None
    bias = torch.randn(last, dtype=dtype) if parts > 1 else None
    given = torch.randn(shape, dtype=dtype), x, weight, bias
    for found, wanted in zip(gradients("hologram", *given), gradients("cpu", *given), strict=True):
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found, wanted, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


HALF_LAYERS = (
    (nn.LayerNorm(5), (3, 4, 5)),
    (nn.GroupNorm(2, 4), (3, 4, 5)),
    (nn.BatchNorm1d(4), (3, 4, 5)),
    (nn.RMSNorm(5), (3, 4, 5)),
)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("layer", "shape"), HALF_LAYERS, ids=lambda x: type(x).__name__)
def test_layers_are_trained_in_half_precision(
    layer: nn.Module, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    layer = layer.to(dtype).to("hologram")
    x = torch.randn(shape, dtype=dtype).to("hologram").requires_grad_()
    layer(x).float().square().sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == dtype
    assert x.grad.isfinite().all()


def test_a_layer_norm_and_its_gradients_are_four_launches() -> None:
    x, weight, bias = (torch.randn(s).to("hologram").requires_grad_() for s in ((8, 64), (64,), (64,)))
    given = torch.ones(8, 64).to("hologram")
    with torch.hologram.executor().profile() as profile:  # pyright: ignore[reportAttributeAccessIssue]
        functional.layer_norm(x, (64,), weight, bias).backward(given)
    assert len(profile.launches) <= 4


LAYOUTS = (
    lambda x: x,
    lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    lambda x: x.transpose(1, -1).contiguous().transpose(1, -1),
    lambda x: torch.stack([x, x], -1)[..., 0],
)


@pytest.mark.parametrize("shape", [(2, 4, 3, 5), (2, 4, 6), (2, 4), (0, 4, 3), (2, 4, 2, 3, 2), (2, 4, 0)])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", range(len(LAYOUTS)))
def test_group_norm_of_any_layout(shape: tuple[int, ...], dtype: torch.dtype, layout: int) -> None:
    """PyTorch's CPU takes no other layout than its own before 2.14, so it is given that."""
    torch.manual_seed(0)
    lead = (shape[0], 2)
    given = [torch.randn(shape), torch.randn(shape), torch.randn(lead), torch.rand(lead), torch.randn(4)]
    cotangent, x, mean, inverse, weight = (v.to(dtype) for v in given)
    size = math.prod(shape[2:])

    def backward(device: str, lay: Any, weight: Any, wanted: list[bool]) -> Any:
        moved = [v if v is None else v.to(device) for v in (cotangent, x, mean, inverse, weight)]
        first, second, *rest = moved
        given = (lay(first), lay(second), *rest, shape[0], 4, size, 2, wanted)
        return torch.ops.aten.native_group_norm_backward(*given)

    for gain, wanted in ((weight, [True] * 3), (None, [True, False, False]), (weight, [False, True, True])):
        found = backward("hologram", LAYOUTS[layout], gain, wanted)
        for own, cpu in zip(found, backward("cpu", LAYOUTS[0], gain, wanted), strict=True):
            assert (own is None) == (cpu is None)
            if cpu is not None:
                assert own.stride() == cpu.stride()
                torch.testing.assert_close(own.cpu(), cpu, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
