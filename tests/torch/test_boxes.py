"""torchvision's operators on boxes, against what they mean, in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401
from tests.torch.boxes import SCHEMAS, declare  # noqa: E402

declare(*SCHEMAS)
ops = torch.ops.torchvision


def kept(boxes: np.ndarray, scores: np.ndarray, threshold: float) -> list[int]:
    found: list[int] = []
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    for k in np.argsort(-scores, kind="stable"):
        low, high = np.maximum(boxes[k, :2], boxes[found, :2]), np.minimum(boxes[k, 2:], boxes[found, 2:])
        common = np.maximum(high - low, 0).prod(axis=1)
        if not (common / (area[found] + area[k] - common) > threshold).any():
            found.append(int(k))
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("count", [0, 1, 60, 2500])
def test_boxes_that_overlap_better_ones_are_dropped(count: int, dtype: Any) -> None:
    rng = np.random.default_rng(count)
    corner = rng.integers(0, 150, (count, 2))
    boxes = np.concatenate([corner, corner + rng.integers(0, 40, (count, 2))], axis=1).astype(np.float64)
    scores = rng.integers(0, 300, count) / 300.0  # some are alike
    given = (torch.tensor(a, dtype=dtype, device="hologram") for a in (boxes.reshape(-1, 4), scores))
    found = ops.nms(*given, 0.4)
    assert found.dtype == torch.int64
    with np.errstate(invalid="ignore"):
        assert found.tolist() == kept(boxes, scores.astype(str(dtype)[6:]), 0.4)


def test_boxes_of_other_shapes_are_refused() -> None:
    with pytest.raises(RuntimeError, match="boxes"):
        ops.nms(torch.zeros(3, 5, device="hologram"), torch.zeros(3, device="hologram"), 0.5)
    with pytest.raises(RuntimeError, match="scores"):
        ops.nms(torch.zeros(3, 4, device="hologram"), torch.zeros(2, device="hologram"), 0.5)


def weights(
    rois: np.ndarray, scale: float, sizes: tuple[int, int], ratio: int, aligned: bool, shape: Any
) -> Any:
    """What each bin takes of each pixel: (regions, height, width, images, rows, columns)."""
    images, rows, columns = shape
    found = np.zeros((len(rois), *sizes, images, rows, columns))
    for r, roi in enumerate(rois):
        begin, end = (roi[k : k + 2] * scale - (0.5 if aligned else 0) for k in (1, 3))
        length = end - begin if aligned else np.maximum(end - begin, 1)
        (x, y), (wide, high) = begin, length
        steps = high / sizes[0], wide / sizes[1]
        counts = [ratio if ratio > 0 else math.ceil(s) for s in steps]
        for h, w, i, j in np.ndindex(*sizes, *(max(c, 0) for c in counts)):
            at = (
                y + h * steps[0] + (i + 0.5) * steps[0] / counts[0],
                x + w * steps[1] + (j + 0.5) * steps[1] / counts[1],
            )
            if not (-1 <= at[0] <= rows and -1 <= at[1] <= columns):
                continue
            for row in range(rows):
                for column in range(columns):
                    place = min(max(at[0], 0), rows - 1), min(max(at[1], 0), columns - 1)
                    near = max(1 - abs(place[0] - row), 0) * max(1 - abs(place[1] - column), 0)
                    found[r, h, w, int(roi[0]), row, column] += near / max(counts[0] * counts[1], 1)
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [-1, 2])
def test_means_of_regions_and_their_gradients(ratio: int, aligned: bool, dtype: Any) -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(-8, 8, (2, 3, 6, 7)).astype(np.float64)
    rois = np.array(
        [[0, 1, 2, 9, 8], [1, -4, -4, 3, 2.5], [1, 3, 3, 3, 3], [0, 0, 0, 40, 30], [1, 5, 1, 2, 8]]
    )
    sizes = (2, 3)
    near: Any = {"rtol": 1e-5, "atol": 1e-5} if dtype != torch.float16 else {"rtol": 2e-3, "atol": 1e-2}
    part = weights(rois, 0.5, sizes, ratio, aligned, (2, 6, 7))
    given = [torch.tensor(a, dtype=dtype, device="hologram") for a in (x, rois)]
    found = ops.roi_align(*given, 0.5, *sizes, ratio, aligned)
    assert found.dtype == dtype
    want = np.einsum("khwbij,bcij->kchw", part, x)
    np.testing.assert_allclose(found.cpu().double().numpy(), want, **near)
    slope = rng.integers(-3, 3, want.shape).astype(np.float64)
    back = ops._roi_align_backward(
        torch.tensor(slope, dtype=dtype, device="hologram"), given[1], 0.5, *sizes, *x.shape, ratio, aligned
    )
    np.testing.assert_allclose(
        back.cpu().double().numpy(), np.einsum("khwbij,kchw->bcij", part, slope), **near
    )


def test_no_regions() -> None:
    x, none = torch.ones(2, 3, 6, 7, device="hologram"), torch.zeros(0, 5, device="hologram")
    assert ops.roi_align(x, none, 1.0, 2, 2, -1, False).shape == (0, 3, 2, 2)
    back = ops._roi_align_backward(
        torch.zeros(0, 3, 2, 2, device="hologram"), none, 1.0, 2, 2, 2, 3, 6, 7, -1, False
    )
    assert back.shape == x.shape
    assert not back.any()
