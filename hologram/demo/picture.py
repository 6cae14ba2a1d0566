"""The demo's results as one PNG: six panels and a caption, drawn with Pillow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from hologram.demo.image import COLOURS, Pictures

PAPER, INK, FAINT, ACCENT = (250, 249, 246), (34, 36, 41), (122, 124, 130), (38, 84, 140)
MARGIN, GAP, LABEL = 40, 28, 34
COLUMNS = 3


def draw(
    photograph: np.ndarray,
    pictures: Pictures,
    weights: np.ndarray,
    confusion: np.ndarray,
    caption: Sequence[str],
) -> Image.Image:
    """The sheet: photograph, blur, edges; colours, learned weights, confusion of the held-out digits."""
    height, width = photograph.shape[:2]
    accuracy = np.trace(confusion) / confusion.sum()
    panels = (
        ("photograph", Image.fromarray(photograph)),
        ("Gaussian blur", _colour(pictures.blurred)),
        ("Sobel edges", _edges(pictures.edges)),
        (f"{COLOURS} colours by k-means", _quantised(pictures, width, height)),
        ("learned weights, one image a digit", _weights(weights, width, height)),
        (f"held-out digits: {accuracy:.1%} right", _confusion(confusion, width, height)),
    )
    rows = -(-len(panels) // COLUMNS)
    top = MARGIN + 84
    sheet = Image.new(
        "RGB",
        (
            2 * MARGIN + COLUMNS * width + (COLUMNS - 1) * GAP,
            top + rows * (height + LABEL + GAP) + 34 * len(caption) + MARGIN - GAP,
        ),
        PAPER,
    )
    pen = ImageDraw.Draw(sheet)
    pen.text((MARGIN, MARGIN - 10), "hologram demo", INK, ImageFont.load_default(46))
    for k, (title, image) in enumerate(panels):
        x = MARGIN + k % COLUMNS * (width + GAP)
        y = top + k // COLUMNS * (height + LABEL + GAP)
        pen.text((x, y), title, INK, ImageFont.load_default(22))
        sheet.paste(image, (x, y + LABEL))
    below = top + rows * (height + LABEL + GAP)
    for k, line in enumerate(caption):
        pen.text((MARGIN, below + 34 * k), line, FAINT if k else ACCENT, ImageFont.load_default(22))
    return sheet


def _bytes(values: np.ndarray) -> np.ndarray:
    return (np.clip(values, 0, 1) * 255 + 0.5).astype(np.uint8)


def _colour(planes: np.ndarray) -> Image.Image:
    return Image.fromarray(_bytes(planes.transpose(1, 2, 0)))


def _edges(lengths: np.ndarray) -> Image.Image:
    """Ink on paper; the power lets faint edges show."""
    strength = np.clip(1.5 * lengths, 0, 1)[..., None] ** 0.8
    return Image.fromarray((np.asarray(PAPER) * (1 - strength) + np.asarray(INK) * strength).astype(np.uint8))


def _quantised(pictures: Pictures, width: int, height: int) -> Image.Image:
    """The picture in its palette, and the palette by brightness along the lower edge."""
    image = Image.fromarray(_bytes(pictures.palette)[pictures.labels].reshape(height, width, 3))
    pen = ImageDraw.Draw(image)
    shown = pictures.palette[np.argsort(pictures.palette.sum(axis=1))]
    side = 30
    left = width - len(shown) * side - 12
    pen.rectangle((left - 4, height - side - 16, width - 9, height - 9), fill=PAPER)
    for k, colour in enumerate(_bytes(shown)):
        x = left + k * side
        pen.rectangle((x, height - side - 12, x + side - 1, height - 13), fill=tuple(int(c) for c in colour))
    return image


def _weights(weights: np.ndarray, width: int, height: int) -> Image.Image:
    """Ten maps, blue against and red for the digit; the bias, the last row, is left out."""
    image = Image.new("RGB", (width, height), PAPER)
    pen = ImageDraw.Draw(image)
    side, gap = 112, 14
    left, top = (width - 5 * side - 4 * gap) // 2, (height - 2 * (side + 34) - gap) // 2
    maps = weights[:-1] / np.abs(weights[:-1]).max()
    for digit in range(maps.shape[1]):
        x, y = left + digit % 5 * (side + gap), top + digit // 5 * (side + 34 + gap)
        tile = Image.fromarray(_diverging(maps[:, digit].reshape(8, 8)))
        image.paste(tile.resize((side, side), Image.Resampling.NEAREST), (x, y + 34))
        pen.text((x + side / 2, y + 30), str(digit), INK, ImageFont.load_default(22), anchor="ms")
    return image


def _diverging(values: np.ndarray) -> np.ndarray:
    """Colours from blue (-1) over white (0) to red (1)."""
    cold, warm, neutral = np.array((44, 92, 168.0)), np.array((190, 56, 48.0)), np.array((255, 255, 255.0))
    amount = np.sqrt(np.abs(values))[..., None]
    end = np.where((values < 0)[..., None], cold, warm)
    return (neutral * (1 - amount) + end * amount).astype(np.uint8)


def _confusion(counts: np.ndarray, width: int, height: int) -> Image.Image:
    """A table of counts, shaded: the digit that was written (rows) against the answer (columns)."""
    image = Image.new("RGB", (width, height), PAPER)
    pen = ImageDraw.Draw(image)
    side = (height - 56) // len(counts)
    left, top = (width - side * len(counts)) // 2 + 14, 52
    font, small = ImageFont.load_default(19), ImageFont.load_default(17)
    for k in range(len(counts)):
        pen.text((left + (k + 0.5) * side, top - 10), str(k), FAINT, small, anchor="ms")
        pen.text((left - 14, top + (k + 0.5) * side), str(k), FAINT, small, anchor="mm")
    pen.text((left + side * len(counts) / 2, 4), "answer", FAINT, small, anchor="mt")
    for row, column in np.ndindex(counts.shape):
        count = int(counts[row, column])
        amount = (count / counts.sum(axis=1).max()) ** 0.5
        colour = ACCENT if row == column else (190, 56, 48)
        fill = tuple(int(255 * (1 - amount) + c * amount) for c in colour)
        x, y = left + column * side, top + row * side
        pen.rectangle((x, y, x + side - 2, y + side - 2), fill=fill)
        if count:
            text = (255, 255, 255) if amount > 0.5 else INK
            pen.text((x + side / 2 - 1, y + side / 2 - 1), str(count), text, font, anchor="mm")
    return image
