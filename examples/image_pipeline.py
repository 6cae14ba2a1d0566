"""A photograph as a drawing in ink and few colours: two blurs, their difference and a palette, in one compiled step.

python examples/image_pipeline.py --picture portrait.jpg writes image_pipeline.png. Lines are where two Gaussians
differ (Winnemöller et al. 2012, XDoG); without a picture it draws one of scikit-learn's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

import hologram as hg
from hologram.demo.gallery import run
from hologram.demo.race import race

FINE, COARSE = 1.0, 1.6  # widths of the two Gaussians, in pixels
RADIUS = 5  # where both have ended
SHARPNESS, SOFTNESS = 20.0, 12.0  # how much they differ, and how soft ink ends
PAPER = 0.5  # brightness above which there is no ink
SHADES = 7.0  # of each colour
LUMINANCE = (0.2126, 0.7152, 0.0722)  # of red, green and blue, Rec. 709


def gaussian(sigma: float) -> list[float]:
    weights = np.exp(-0.5 * (np.arange(-RADIUS, RADIUS + 1) / sigma) ** 2)
    return (weights / weights.sum()).tolist()


def weighted(parts: Sequence[Any], weights: Sequence[float]) -> Any:
    """Sum of arrays, each times its weight."""
    total = parts[0] * weights[0]
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        total = total + part * weight
    return total


def blurred(planes: Any, sigma: float) -> Any:
    """Along columns, then along rows; each loses RADIUS pixels at both ends."""
    weights, (height, width) = gaussian(sigma), planes.shape[-2:]
    shifts = range(2 * RADIUS + 1)
    planes = weighted([planes[..., k : height - 2 * RADIUS + k, :] for k in shifts], weights)
    return weighted([planes[..., k : width - 2 * RADIUS + k] for k in shifts], weights)


@hg.jit
def drawn(planes: Any) -> Any:
    """The drawing of planes (3, height, width) in 0 to 1, whose border is RADIUS wide."""
    xp = planes.__array_namespace__()
    smooth = blurred(planes, FINE)
    fine, coarse = (weighted(list(p), LUMINANCE) for p in (smooth, blurred(planes, COARSE)))
    line = fine + SHARPNESS * (fine - coarse)
    ink = xp.where(line >= PAPER, xp.ones_like(line), 1.0 + xp.tanh(SOFTNESS * (line - PAPER)))
    level = 2.0 * math.pi * SHADES * smooth
    colours = (level - xp.sin(level)) / (2.0 * math.pi * SHADES)  # steps, with soft edges
    return colours * (0.25 + 0.75 * xp.clip(ink, 0.0, 1.0))


def play(step: Any, planes: Any, repeats: int) -> Iterator[Any]:
    for _ in range(repeats):
        yield step(planes)


def main(
    picture: Path | None = None,
    width: int = 640,
    repeats: int = 10,
    output: Path = Path("image_pipeline.png"),
) -> None:
    given = Image.open(picture).convert("RGB") if picture else Image.fromarray(load_sample_image("china.jpg"))
    given = given.resize((width, round(given.height * width / given.width)))
    planes = np.asarray(given, np.float32).transpose(2, 0, 1) / 255
    padded = np.pad(planes, ((0, 0), (RADIUS, RADIUS), (RADIUS, RADIUS)), mode="edge")
    *_, drawing = race(partial(play, repeats=repeats), drawn, padded)
    Image.fromarray((np.clip(drawing.transpose(1, 2, 0), 0, 1) * 255).astype(np.uint8)).save(output)
    print(f"{output}: {given.width} x {given.height} pixels, {np.mean(drawing < 0.2):.0%} of it in ink")


if __name__ == "__main__":
    run(main)
