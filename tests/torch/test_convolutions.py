"""Convolutions and their gradients on the PyTorch device, beside PyTorch's own in float64."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401

F = torch.nn.functional

CASES: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "lines": (F.conv1d, (3, 6, 50), (8, 6, 5), {"padding": 2}),
    "lines, apart": (F.conv1d, (3, 6, 50), (8, 3, 5), {"stride": 3, "dilation": 2, "groups": 2}),
    "images": (F.conv2d, (3, 6, 19, 18), (8, 6, 3, 3), {"padding": 1}),
    "the same size": (F.conv2d, (3, 6, 19, 18), (8, 6, 3, 4), {"padding": "same"}),
    "strides": (F.conv2d, (3, 6, 19, 18), (8, 6, 3, 2), {"stride": (2, 3), "padding": (1, 0)}),
    "dilation": (F.conv2d, (3, 6, 19, 18), (8, 6, 3, 3), {"dilation": (2, 3), "padding": 3}),
    "groups": (F.conv2d, (3, 6, 19, 18), (9, 2, 3, 3), {"groups": 3, "stride": 2, "padding": 1}),
    "depthwise": (F.conv2d, (3, 6, 19, 18), (12, 1, 3, 3), {"groups": 6, "padding": 1}),
    "pointwise": (F.conv2d, (3, 16, 9, 8), (12, 16, 1, 1), {}),
    "patches": (F.conv2d, (2, 3, 32, 32), (24, 3, 8, 8), {"stride": 8}),
    "volumes": (F.conv3d, (2, 4, 5, 9, 8), (6, 4, 2, 3, 3), {"padding": 1, "stride": (1, 2, 1)}),
    "transposed": (F.conv_transpose2d, (3, 6, 7, 8), (6, 5, 3, 3), {"padding": 1}),
    "transposed strides": (
        F.conv_transpose2d,
        (3, 6, 7, 8),
        (6, 5, 4, 3),
        {"stride": (2, 3), "output_padding": (1, 2), "groups": 2, "padding": 1},
    ),
}


def gradients(
    function: Any, operands: list[Any], settings: dict[str, Any], slope: Any
) -> tuple[list[Any], Any]:
    """The result and the gradients of all operands for a slope, which is random where it is not given."""
    given = [x.detach().requires_grad_() for x in operands]
    result = function(*given, **settings)
    slope = torch.randn(result.shape, dtype=torch.float64) if slope is None else slope
    found = torch.autograd.grad(result, given, slope.to(result))
    return [result.detach(), *found], slope


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_as_pytorch(case: str, dtype: Any, last: bool) -> None:
    function, x, weight, settings = CASES[case]
    torch.manual_seed(0)
    channels = weight[1] * settings.get("groups", 1) if "transposed" in case else weight[0]
    operands = [torch.randn(shape, dtype=dtype) for shape in (x, weight, (channels,))]
    expected, slope = gradients(function, [v.double() for v in operands], settings, None)
    there = [v.to("hologram") for v in operands]
    if last and len(x) == 4:
        there[0] = there[0].to(memory_format=torch.channels_last)
    found, _ = gradients(function, there, settings, slope.to(dtype).to("hologram"))
    near = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-1}
    for one, exact in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu().double(), exact, **near)


def test_nothing_to_convolve() -> None:
    """No images, and no gradient but zeros."""
    x = torch.randn(0, 4, 9, 8, device="hologram", requires_grad=True)
    weight = torch.randn(6, 4, 3, 3, device="hologram", requires_grad=True)
    F.conv2d(x, weight).sum().backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape
    assert weight.grad is not None
    assert not weight.grad.cpu().any()
