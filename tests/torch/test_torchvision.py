"""torchvision's operators give what its own kernels for the CPU give, where these are here."""

# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

import hologram_torch  # noqa: F401
from tests.torch.boxes import KERNELS
from tests.torch.test_deformed import CASES, operands

pytestmark = pytest.mark.skipif(not KERNELS, reason="torchvision is not here, or built for another PyTorch")
ops = torch.ops.torchvision

# What follows the regions' scale and sizes; at most that many samples.
REGIONS = {
    "roi_align": ((2, True), (-1, False)),
    "roi_pool": ((),),
    "ps_roi_align": ((2,), (-1,)),
    "ps_roi_pool": ((),),
}
SHAPES = ((3, 12, 16, 19), (2, 24, 30, 20), (1, 12, 1, 1), (2, 12, 5, 7))


def regions(count: int, images: int, generator: torch.Generator, whole: bool) -> torch.Tensor:
    """Some of them outside of images, or turned inside out."""
    corner = torch.rand(count, 2, generator=generator) * 40 - 10
    boxes = torch.cat([corner, corner + torch.rand(count, 2, generator=generator) * 30 - 3], dim=1)
    number = torch.randint(0, images, (count, 1), generator=generator)
    return torch.cat([number, (boxes * 2).round() / 2 if whole else boxes], dim=1)


def compare(function: Callable[[Any], Any], dtype: torch.dtype) -> None:
    """What a function of a device gives, with what it gives on the CPU."""
    bound = 1e-10 if dtype == torch.float64 else 1e-4
    for found, wanted in zip(function("hologram"), function("cpu"), strict=True):
        torch.testing.assert_close(found.cpu(), wanted, rtol=bound, atol=bound, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("count", [0, 20])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("name", "rest"), [(name, rest) for name, each in REGIONS.items() for rest in each])
def test_regions(name: str, rest: tuple[Any, ...], whole: bool, count: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(9)
    for shape in SHAPES:
        for sizes, scale in (((2, 3), 1.0), ((3, 1), 0.5), ((1, 1), 0.25), ((2, 2), 0.3)):
            x = (
                torch.randn(shape, generator=generator, dtype=dtype)
                .transpose(2, 3)
                .contiguous()
                .transpose(2, 3)
            )
            rois = regions(count, shape[0], generator, whole).to(dtype)
            if name == "roi_align":  # whose kernel for the CPU asks for memory of a negative size otherwise
                rois[:, 3:] = rois[:, 3:].maximum(rois[:, 1:3])

            def run(device: str, x: Any = x, rois: Any = rois, settings: Any = (scale, *sizes)) -> Any:
                there = rois.to(device)
                found = getattr(ops, name)(x.to(device), there, *settings, *rest)
                value, *other = found if isinstance(found, tuple) else (found,)
                slope = torch.linspace(-1, 1, value.numel(), dtype=x.dtype).reshape(value.shape).to(device)
                # The number of samples stands before the images' sizes in one, behind them in the other.
                ends = (*x.shape, *rest) if name == "roi_align" else (*rest, *x.shape)
                back = getattr(ops, f"_{name}_backward")(slope, there, *other, *settings, *ends)
                return value, *other, back

            compare(run, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_deformable_convolutions(case: str, whole: bool, dtype: torch.dtype) -> None:
    (slope, *given), settings = operands(case, dtype, whole)

    def run(device: str) -> Any:
        there = [v.to(device) for v in given]
        forward = ops.deform_conv2d(*there, *settings)
        return forward, *ops._deform_conv2d_backward(slope.to(device), *there, *settings)

    compare(run, dtype)
