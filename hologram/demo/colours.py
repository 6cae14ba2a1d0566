"""Fields of numbers as pictures, and series of them as plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

PAPER, INK, FAINT = (250, 249, 246), (34, 36, 41), (200, 199, 194)
HUES = ((38, 84, 140), (190, 84, 40), (70, 130, 80))
DARK_TO_LIGHT = ((12, 10, 30), (70, 24, 92), (170, 50, 80), (240, 130, 50), (252, 235, 165))
COLD_TO_HOT = ((20, 50, 120), (110, 160, 205), (250, 249, 246), (225, 140, 100), (130, 20, 30))
MARGIN = 44


def coloured(
    field: np.ndarray, low: float, high: float, stops: Sequence[tuple[int, int, int]] = DARK_TO_LIGHT
) -> np.ndarray:
    """A field of numbers as one of colours, from those of `low` to those of `high`: bytes (height, width, 3)."""
    place = np.clip((np.nan_to_num(field) - low) / (high - low), 0, 1)
    at = np.linspace(0, 1, len(stops))
    channels = [np.interp(place, at, [stop[k] for stop in stops]) for k in range(3)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


def enlarged(colours: np.ndarray, width: int) -> Image.Image:
    """A picture about so many pixels wide, each of its own a square of them."""
    times = max(width // colours.shape[1], 1)
    return Image.fromarray(colours.repeat(times, axis=0).repeat(times, axis=1))


def plotted(
    series: Mapping[str, np.ndarray],
    across: np.ndarray,
    *,
    powers: bool = False,
    size: tuple[int, int] = (480, 300),
) -> Image.Image:
    """Lines over what runs across, each under its name; with `powers` heights are powers of ten."""
    sheet = Image.new("RGB", size, PAPER)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(14)
    lines = {name: np.log10(values) if powers else np.asarray(values) for name, values in series.items()}
    heights = np.concatenate([*lines.values()])
    low, high = (
        float(np.floor(heights.min())) if powers else min(float(heights.min()), 0.0),
        float(heights.max()),
    )
    high = float(np.ceil(high)) if powers else high
    left, right = float(across.min()), float(across.max())

    def place(x: float, y: float) -> tuple[float, float]:
        wide, tall = (
            (at - start) / max(end - start, 1e-30) for at, start, end in ((x, left, right), (y, low, high))
        )
        return MARGIN + wide * (size[0] - 2 * MARGIN), size[1] - MARGIN - tall * (size[1] - 2 * MARGIN)

    for y in (low, high):
        pen.line((place(left, y), place(right, y)), FAINT)
        pen.text((4, place(left, y)[1] - 8), f"{10.0**y if powers else y:.3g}", INK, font)
    for x in (left, right):
        pen.text((place(x, low)[0] - 8, size[1] - MARGIN + 6), f"{x:.4g}", INK, font)
    for number, (name, values) in enumerate(lines.items()):
        hue = HUES[number % len(HUES)]
        pen.line([place(x, y) for x, y in zip(across, values, strict=True)], hue, 2)
        pen.text((MARGIN, 6 + 16 * number), name, hue, font)
    return sheet
