"""torchvision's operators on boxes, against what they mean, in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401
from hologram_torch.aten.vision import pooled  # noqa: E402
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


def covered(
    rois: np.ndarray, scale: float, sizes: tuple[int, int], shape: Any, inclusive: bool
) -> np.ndarray:
    """The pixels of each bin: (regions, height, width, images, rows, columns)."""
    found = np.zeros((len(rois), *sizes, *shape), bool)
    corners = rois[:, 1:] * rois.dtype.type(scale)
    corners = np.trunc(corners + np.copysign(0.5, corners))
    for r, (x1, y1, x2, y2) in enumerate(corners):
        begin = np.array([y1, x1])
        steps = np.maximum(np.array([y2, x2]) - begin + inclusive, 1) / np.array(sizes)
        for bin in np.ndindex(*sizes):
            first = np.maximum(np.floor(np.array(bin) * steps) + begin, 0).astype(int)
            last = np.maximum(np.ceil((np.array(bin) + 1) * steps) + begin, 0).astype(int)
            found[(r, *bin, int(rois[r, 0]), slice(first[0], last[0]), slice(first[1], last[1]))] = True
    return found


BOXES = [
    [0, 1, 2, 9, 8],
    [1, -4, -4, 3, 2.5],
    [1, 3, 3, 3, 3],
    [0, 0, 0, 40, 30],
    [1, 30, 30, 50, 40],
    [1, 5, 9, 2, 4],
]


def on_device(a: np.ndarray, dtype: Any, across: bool = False) -> Any:
    """A tensor of the device, with other strides if `across`."""
    found = torch.tensor(a, dtype=dtype, device="hologram")
    return found.transpose(-1, -2).contiguous().transpose(-1, -2) if across else found


def near(found: Any, want: np.ndarray, dtype: Any) -> None:
    assert found.dtype == dtype
    bound = 1e-2 if dtype == torch.float16 else 1e-5
    np.testing.assert_allclose(found.cpu().double().numpy(), want, rtol=bound, atol=bound)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("sizes", [(2, 3), (1, 1), (3, 4)])
@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_largest_pixels_of_regions_and_their_gradients(scale: float, sizes: Any, dtype: Any) -> None:
    rng = np.random.default_rng(6)
    x, rois = rng.integers(-8, 8, (2, 3, 6, 7)).astype(np.float64), np.array(BOXES, np.float32)
    bins = covered(rois, scale, sizes, (2, 6, 7), True)[:, None]
    seen = np.where(bins, x.transpose(1, 0, 2, 3)[None, :, None, None], -np.inf).reshape(6, 3, *sizes, -1)
    some = np.broadcast_to(bins.any(axis=(4, 5, 6)), seen.shape[:-1])
    want, place = np.where(some, seen.max(axis=-1), 0), seen.argmax(axis=-1)  # the first of equals
    given = on_device(x, dtype, across=True), on_device(rois, dtype)
    values, places = ops.roi_pool(*given, scale, *sizes)
    near(values, want, dtype)
    assert places.dtype == torch.int32
    np.testing.assert_array_equal(places.cpu().numpy(), np.where(some, place % 42, -1))
    slope = rng.integers(-3, 3, want.shape).astype(np.float64)
    back = ops._roi_pool_backward(
        on_device(slope, dtype, across=True), given[1], places, scale, *sizes, *x.shape
    )
    left = np.zeros((3, 84))
    for at in np.argwhere(some):
        left[at[1], place[tuple(at)]] += slope[tuple(at)]
    near(back, left.reshape(3, 2, 6, 7).transpose(1, 0, 2, 3), dtype)


def test_what_no_bin_holds() -> None:
    """NaN and what is too low to be the largest are passed over, as in torchvision."""
    x = torch.tensor([[[[math.nan, -math.inf], [math.nan, -3.4e38]]]], device="hologram")
    rois = torch.tensor([[0, 0, 0, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 1, 1]], dtype=torch.float32)
    values, places = ops.roi_pool(x, rois.to("hologram"), 1.0, 1, 1)
    lowest = torch.finfo(torch.float32).min
    assert values.flatten().cpu().tolist() == torch.tensor([lowest, lowest, -3.4e38]).tolist()
    assert places.flatten().tolist() == [-1, -1, 3]


CHANNELS = {(2, 3): 12, (1, 1): 3, (3, 2): 6}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("sizes", CHANNELS)
@pytest.mark.parametrize("ratio", [None, -1, 2])
def test_means_of_channels_that_are_each_bins_own(ratio: int | None, sizes: Any, dtype: Any) -> None:
    rng = np.random.default_rng(7)
    x, rois = rng.integers(-8, 8, (2, CHANNELS[sizes], 6, 7)).astype(np.float64), np.array(BOXES, np.float32)
    given = on_device(x, dtype, across=True), on_device(rois, dtype)
    if ratio is None:
        back_part: Any = covered(rois, 0.5, sizes, (2, 6, 7), False)
        part: Any = (
            back_part * (np.arange(6) < 5)[:, None] * (np.arange(7) < 6)
        )  # neither the last row nor column
        part, back_part = (p / np.maximum(p.sum(axis=(3, 4, 5), keepdims=True), 1) for p in (part, back_part))
        name, settings = "ps_roi_pool", ()
    else:
        rois = rois[[0, 1, 3, 4]]  # of the others torchvision divides by no samples
        given = given[0], on_device(rois, dtype)
        part = back_part = weights(rois, 0.5, sizes, ratio, True, (2, 6, 7))
        name, settings = "ps_roi_align", (ratio,)
    found, mapping = getattr(ops, name)(*given, 0.5, *sizes, *settings)
    apart = x.reshape(2, -1, *sizes, 6, 7)
    want = np.einsum("khwbij,bchwij->kchw", part, apart)
    near(found, want, dtype)
    own = np.arange(x.shape[1]).reshape(1, -1, *sizes)
    assert mapping.dtype == torch.int32
    np.testing.assert_array_equal(mapping.cpu().numpy(), np.broadcast_to(own, want.shape))
    slope = rng.integers(-3, 3, want.shape).astype(np.float64)
    back = getattr(ops, f"_{name}_backward")(
        on_device(slope, dtype, across=True), given[1], mapping, 0.5, *sizes, *settings, *x.shape
    )
    near(back, np.einsum("khwbij,kchw->bchwij", back_part, slope).reshape(x.shape), dtype)


def test_a_region_without_samples_has_no_mean() -> None:
    x, rois = torch.ones(1, 4, 6, 7, device="hologram"), torch.tensor([[0, 3, 3, 3, 9.0], [0, 1, 1, 5, 5]])
    found, mapping = ops.ps_roi_align(x, rois.to("hologram"), 1.0, 2, 2, -1)
    assert found.isnan().flatten(1).all(dim=1).tolist() == [True, False]
    back = ops._ps_roi_align_backward(
        torch.ones_like(found), rois.to("hologram"), mapping, 1.0, 2, 2, -1, 1, 4, 6, 7
    )
    assert back.sum().item() == pytest.approx(4.0)


@pytest.mark.parametrize("name", ["roi_pool", "ps_roi_pool", "ps_roi_align"])
def test_no_regions_of_any_kind(name: str) -> None:
    x, none = torch.ones(2, 4, 6, 7, device="hologram"), torch.zeros(0, 5, device="hologram")
    settings = (-1,) if name == "ps_roi_align" else ()
    values, other = getattr(ops, name)(x, none, 1.0, 2, 2, *settings)
    assert values.shape == other.shape == (0, 4 if name == "roi_pool" else 1, 2, 2)
    assert (values.dtype, other.dtype) == (torch.float32, torch.int32)
    back = getattr(ops, f"_{name}_backward")(values, none, other, 1.0, 2, 2, *settings, 2, 4, 6, 7)
    assert torch.equal(back, torch.zeros_like(x))


def test_many_regions_are_gone_through_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(2, 8, 30, 20, device="hologram")
    rois = torch.rand(40, 5, device="hologram") * torch.tensor([2, 10, 10, 30, 30], device="hologram")
    whole, mapping = ops.ps_roi_pool(x, rois, 1.0, 2, 2)
    back = ops._ps_roi_pool_backward(whole, rois, mapping, 1.0, 2, 2, *x.shape)
    monkeypatch.setattr(pooled, "PLACES", 5000)
    assert torch.equal(ops.ps_roi_pool(x, rois, 1.0, 2, 2)[0], whole)
    torch.testing.assert_close(ops._ps_roi_pool_backward(whole, rois, mapping, 1.0, 2, 2, *x.shape), back)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rois": torch.zeros(3, 4)}, r"roi_align: rois must be \(n, 5\), got \(3, 4\)"),
        ({"input": torch.zeros(4, 6, 7)}, r"roi_align: input must have 4 axes, got shape \(4, 6, 7\)"),
        ({"input": torch.zeros(1, 4, 6, 7).int()}, r"roi_align: input must be floats, got torch.int32"),
        ({"input": torch.zeros(1, 5, 6, 7)}, r"roi_align: channels must be a multiple of 4 bins, got 5"),
    ],
)
def test_what_is_no_region_is_refused(change: dict[str, Any], words: str) -> None:
    given = {"input": torch.zeros(1, 4, 6, 7), "rois": torch.zeros(3, 5), **change}
    with pytest.raises(RuntimeError, match=words):
        ops.ps_roi_align(*(v.to("hologram") for v in given.values()), 1.0, 2, 2, -1)
