"""torchvision's deformable convolution, against what it means, place by place."""

# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

import hologram_torch  # noqa: F401
from hologram_torch.aten.vision import deformed
from tests.torch.boxes import SCHEMAS, declare

declare(*SCHEMAS)
ops = torch.ops.torchvision

TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 1e-2}

# Images, kernel (channels, of a group, height, width), stride, padding, dilation, groups, groups of offsets, mask.
CASES: dict[str, tuple[Any, ...]] = {
    "plain": ((2, 3, 5, 6), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1, 1, False),
    "masked": ((1, 2, 5, 4), (3, 2, 2, 3), (1, 1), (0, 1), (1, 1), 1, 1, True),
    "everything": ((3, 4, 6, 7), (6, 2, 3, 2), (2, 1), (0, 2), (1, 2), 2, 2, True),
    "narrow": ((2, 6, 5, 1), (3, 2, 1, 1), (2, 1), (0, 0), (1, 1), 3, 6, False),
    "nothing": ((0, 3, 5, 6), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True),
}


def operands(case: str, dtype: torch.dtype, whole: bool) -> tuple[list[torch.Tensor], tuple[Any, ...]]:
    """Cotangent, images, weights, offsets, mask and bias, and the settings; offsets of whole pixels, if so asked."""
    shape, kernel, stride, padding, dilation, groups, offset_groups, masked = CASES[case]
    results = [
        (shape[2 + k] + 2 * padding[k] - dilation[k] * (kernel[2 + k] - 1) - 1) // stride[k] + 1
        for k in range(2)
    ]
    taps = offset_groups * math.prod(kernel[2:])
    shapes = [(shape[0], kernel[0], *results), shape, kernel, (shape[0], 2 * taps, *results)]
    shapes += [(shape[0], taps, *results) if masked else (shape[0], 1), kernel[:1]]
    generator = torch.Generator().manual_seed(8)
    found = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
    found[3] = (found[3] * 2).round() if whole else found[3] * 2
    # As this dtype has them, and with other strides.
    found = [v.to(dtype).movedim(0, -1).contiguous().movedim(-1, 0) for v in found]
    return found, (*stride, *padding, *dilation, groups, offset_groups, masked)


def convolved(
    x: Any, weight: Any, offset: Any, mask: Any, bias: Any, sh: int, sw: int, ph: int, pw: int, dh: int, dw: int,
    groups: int, offset_groups: int, masked: bool,
) -> Any:  # fmt: skip
    images, channels, height, width = x.shape
    kernel, results = weight.shape[2:], offset.shape[2:]
    columns = x.new_zeros(images, channels, math.prod(kernel), *results)
    for b, g, i, j, row, column in np.ndindex(images, offset_groups, *kernel, *results):
        tap = i * kernel[1] + j
        own = slice(g * channels // offset_groups, (g + 1) * channels // offset_groups)
        number = g * math.prod(kernel) + tap
        y = row * sh - ph + i * dh + offset[b, 2 * number, row, column]
        z = column * sw - pw + j * dw + offset[b, 2 * number + 1, row, column]
        top, left = math.floor(y.item()), math.floor(z.item())
        total = x.new_zeros(channels // offset_groups)
        for at, by in ((top, top + 1 - y), (top + 1, y - top)):
            for along, share in ((left, left + 1 - z), (left + 1, z - left)):
                if 0 <= at < height and 0 <= along < width:
                    total = total + x[b, own, at, along] * by * share
        columns[b, own, tap, row, column] = total * mask[b, number, row, column] if masked else total
    columns = columns.reshape(images, groups, channels // groups * math.prod(kernel), *results)
    found = torch.einsum("goi,ngiyx->ngoyx", weight.reshape(groups, -1, columns.shape[2]), columns)
    return found.reshape(images, weight.shape[0], *results) + bias[:, None, None]


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_taps_that_offsets_move_and_their_gradients(case: str, whole: bool, dtype: torch.dtype) -> None:
    (slope, *given), settings = operands(case, dtype, whole)
    exact: Any = [v.double().requires_grad_() for v in given]
    want = convolved(*exact, *settings)
    wanted = [want, *torch.autograd.grad(want, exact, slope.double(), allow_unused=True)]
    there = [v.to("hologram") for v in given]
    found = [
        ops.deform_conv2d(*there, *settings),
        *ops._deform_conv2d_backward(slope.to("hologram"), *there, *settings),
    ]
    for ours, theirs, like in zip(found, wanted, (slope, *given), strict=True):
        theirs = torch.zeros(like.shape) if theirs is None else theirs.detach()
        assert (ours.dtype, ours.shape) == (dtype, like.shape)
        bound = TOLERANCES[dtype] * max([1.0, *theirs.abs().flatten().tolist()])
        torch.testing.assert_close(ours.cpu().double(), theirs.double(), rtol=0, atol=bound)


def test_images_are_gone_through_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    given, settings = operands("everything", torch.float32, False)
    slope, *there = (v.to("hologram") for v in given)
    whole = [
        ops.deform_conv2d(*there, *settings),
        *ops._deform_conv2d_backward(slope, *there, *settings),
    ]
    monkeypatch.setattr(deformed, "COLUMNS", 1)
    parts = [
        ops.deform_conv2d(*there, *settings),
        *ops._deform_conv2d_backward(slope, *there, *settings),
    ]
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(other, one)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"offset": torch.zeros(2, 18, 4, 6)}, r"offset must be \(2, 18, 5, 6\), got \(2, 18, 4, 6\)"),
        ({"mask": torch.zeros(2, 3, 5, 6)}, r"mask must be \(2, 9, 5, 6\), got \(2, 3, 5, 6\)"),
        ({"weight": torch.zeros(4, 2, 3, 3)}, r"channels must be shared out evenly by 1 groups"),
        ({"input": torch.zeros(3, 5, 6)}, r"input must have 4 axes, got shape \(3, 5, 6\)"),
        ({"input": torch.zeros(2, 3, 5, 6).int()}, r"input must be floats, got torch.int32"),
        ({"input": torch.zeros(2, 3, 0, 0)}, r"the kernel must fit into the padded images"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, torch.Tensor], words: str) -> None:
    shapes = {
        "input": (2, 3, 5, 6), "weight": (4, 3, 3, 3), "offset": (2, 18, 5, 6), "mask": (2, 9, 5, 6), "bias": (4,)
    }  # fmt: skip
    given = {**{name: torch.zeros(shape) for name, shape in shapes.items()}, **change}
    with pytest.raises(RuntimeError, match=f"deform_conv2d: {words}"):
        ops.deform_conv2d(*(v.to("hologram") for v in given.values()), 1, 1, 1, 1, 1, 1, 1, 1, True)
