"""Convolutions as launches: how they are cut, and where the pieces lie; the code is that of convolving.py."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hologram.backends.cpu.image import ADDRESS, Patch, Piece, Step
from hologram.backends.cpu.kernel import Host
from hologram.backends.cpu.products import convolving, panels, patches
from hologram.backends.cpu.products.panels import DEPTH, MICRO_ROWS
from hologram.compiled.machine_code.engine import Code, Engine
from hologram.compiled.machine_code.objects import kept_code
from hologram.foundation.bounded_caches import found_again
from hologram.foundation.dtypes import DType, f32, f64
from hologram.foundation.frozen import frozen

_ROWS = 192  # of a unit, at most
_RESULTS = 48 << 10  # of a unit: its sums stay in the second cache
_COLUMNS = 1024
_CHANNELS = 256  # columns of a unit that sums over places
_MULTIPLY_NS = 0.012  # of a multiply-add, estimated
_SHORTEST_NS = 6_000  # no slice is made shorter
_SLICES = 8  # for each thread, so that one that is held up leaves some of its work to the others
_LINE = 64  # bytes


@functools.lru_cache(maxsize=8)
def _code(engine: Engine, dtype: DType, stored: DType) -> Code:
    text = convolving.text(dtype, stored, engine.vector_bits)
    return kept_code(engine, "patches", text, lambda: (text, convolving.FUNCTIONS))


@frozen
class Window:
    """How a window moves over images, along rows and columns."""

    size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @property
    def taps(self) -> int:
        return self.size[0] * self.size[1]

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns from the first tap to the last."""
        rows, columns = (d * (n - 1) + 1 for n, d in zip(self.size, self.dilation, strict=True))
        return rows, columns


@frozen
class Images:
    """Images as they lie: dtype, (rows, columns), and steps in bytes of groups, images, channels, rows and columns."""

    dtype: DType
    count: int
    channels: int  # of a group
    sides: tuple[int, int]
    steps: tuple[int, int, int, int, int]


@frozen
class Block:
    """Places that are multiplied together: of so many images, so many of each; and how many such blocks there are."""

    images: int
    places: int
    image_blocks: int
    place_blocks: int


def block(images: int, area: int, most: int, width: int) -> Block:
    """Blocks of at most so many places, or a panel's width of them: whole images, or part of one."""
    if area <= most:
        blocks = -(-images // max(1, most // area))
        together = -(-images // blocks)
        return Block(together, area, -(-images // together), 1)
    blocks = -(-area // max(most, width))
    places = min(-(-area // (blocks * width)) * width, area)
    return Block(1, places, images, -(-area // places))


def even(total: int, most: int, multiple: int = 1) -> tuple[int, int]:
    """Length and number of blocks of at most `most`, nearly alike; multiples of something where that is no more."""
    blocks = -(-total // most)
    size = min(-(-total // (blocks * multiple)) * multiple, most, total)
    return size, -(-total // size)


@frozen
class Box:
    """What patches are gathered from: x as it lies, or the part of it that is surrounded with zeros; in elements."""

    direct: bool
    rows: int
    phase: int
    row_pitch: int
    channel_pitch: int
    image_pitch: int
    elements: int

    def taps(self, channels: int, window: Window) -> np.ndarray:
        """Where each tap's element lies; one array for all that lie alike, as launches are compared by its address."""
        step = 0 if self.direct else window.stride[1]
        numbers = (channels, *window.size, *window.dilation)
        return _taps(*map(int, (*numbers, step, self.phase, self.row_pitch, self.channel_pitch)))


@functools.lru_cache(maxsize=1024)
@found_again
def _taps(
    channels: int, height: int, width: int, down: int, right: int,
    step: int, phase: int, row_pitch: int, channel_pitch: int,
) -> np.ndarray:  # fmt: skip
    """Columns `step` apart lie side by side, `phase` behind those before them; 0: all lie as they are."""
    channel, y, x = np.ogrid[:channels, :height, :width]
    x = x * right
    column = x % step * phase + x // step if step else x
    return (channel * channel_pitch + y * down * row_pitch + column).reshape(-1).astype(np.int64)


def box(x: Images, window: Window, out_sides: tuple[int, int], cut: Block, channels: int) -> Box:
    """For so many channels at a time."""
    height, width = out_sides
    reach = [(n - 1) * s + r for n, s, r in zip(out_sides, window.stride, window.reach, strict=True)]
    inside = not any(window.padding) and reach[0] <= x.sides[0] and reach[1] <= x.sides[1]
    near = x.steps[4] == x.dtype.itemsize and window.stride[1] == 1
    if inside and near and x.dtype in (f32, f64):
        row, channel, image = (x.steps[k] // x.dtype.itemsize for k in (3, 2, 1))
        return Box(True, 0, 0, row, channel, image, 0)
    lines = height if cut.places == height * width else min((cut.places + width - 2) // width + 1, height)
    rows = (lines - 1) * window.stride[0] + window.reach[0]
    phase = width + (window.reach[1] - 1) // window.stride[1]
    pitch = window.stride[1] * phase
    return Box(
        False, rows, phase, pitch, rows * pitch, channels * rows * pitch, cut.images * channels * rows * pitch
    )


@frozen
class Work:
    """A convolution, or the sum of products that is its weight's: x, what it is multiplied by, and results.

    `other` has the steps of weights (group, image, channel, tap) or of cotangents (group, image, place, channel); `out`
    those of (group, image, channel, place), or of (group, part, tap, channel). All in bytes.
    """

    x: Images
    window: Window
    out_sides: tuple[int, int]
    groups: int
    channels: int  # of results, of a group
    other: tuple[int, int, int, int]
    out: tuple[int, int, int, int]
    stored: DType
    parts: int = 0  # of the images, that are summed apart; 0: a convolution

    @property
    def area(self) -> int:
        return self.out_sides[0] * self.out_sides[1]

    @property
    def taps(self) -> int:
        return self.x.channels * self.window.taps


def pieces_of(
    work: Work, addresses: Sequence[tuple[int, int]], after: Piece | None, host: Host
) -> list[Piece]:
    """A launch; `addresses` say of x, the other operand and out which argument it is, and how many bytes behind it.

    `after` is a program on the results, row by row of (images, channels, places).
    """
    engine = host.engine()
    code = _code(engine, work.x.dtype, work.stored)
    width = panels.panel_columns(work.x.dtype, engine.vector_bits)
    each_ns = work.x.count * work.area * work.taps * work.channels * work.groups * _MULTIPLY_NS
    slices = max(1, min(int(each_ns / _SHORTEST_NS), host.threads * _SLICES))
    cut = (
        _weighing(work, width, min(slices, host.threads)) if work.parts else _convolving(work, width, slices)
    )
    taps = cut.box.taps(work.x.channels, work.window)
    numbers = {**_described(work), **cut.numbers, "rooms": host.threads, "taps": taps.ctypes.data}
    words = [int(numbers.get(name, 0)) for name in patches.WORDS]
    told = [Patch(k, ADDRESS, argument, first) for k, (argument, first) in enumerate(addresses)]
    piece = Piece((), words, tuple(told), host.threads, patches.WORDS.index("flags"), (code, taps, after))
    step = Step(code.addresses[1 if work.parts else 0], cut.units, max(1, cut.units // slices))
    room = (host.threads * numbers["room_bytes"] + _LINE) // 8
    piece = replace(piece, steps=(step,), room=room, room_at=patches.WORDS.index("room"))
    return [piece if after is None else _followed(piece, after)]


def _followed(piece: Piece, after: Piece) -> Piece:
    """The piece with another one's words behind its own, of which its code finds the function."""
    own, own_scratch = len(piece.words), piece.scratch
    words = [*piece.words, *after.words]
    words[patches.WORDS.index("after")] = after.steps[0].function
    moved = (replace(p, word=p.word + own) for p in after.patches)
    return replace(piece, words=words, patches=(*piece.patches, *moved), scratch=own_scratch)


@frozen
class Cut:
    """What the code is told of how a launch is cut."""

    units: int
    box: Box
    numbers: Mapping[str, int]


def _convolving(work: Work, width: int, slices: int) -> Cut:
    rows, row_blocks = even(work.channels, _ROWS, MICRO_ROWS)
    wanted = -(-slices // (work.groups * row_blocks))
    most = min(_COLUMNS, max(_RESULTS // rows, width))
    fair = max(-(-work.x.count * work.area // wanted), width)
    if fair < most:
        most = -(-fair // width) * width if fair < work.area else fair
    places = block(work.x.count, work.area, most, width)
    taps = work.window.taps
    channels, _ = even(work.x.channels, DEPTH // taps) if taps <= DEPTH else (min(2, work.x.channels), 0)
    found = box(work.x, work.window, work.out_sides, places, channels)
    numbers = {"m": work.channels, "n": 0, "k": work.taps, "depth": min(DEPTH, channels * taps)}
    numbers |= _sizes(work, found, places, rows, -(-places.images * places.places // width) * width, width)
    units = work.groups * row_blocks * places.image_blocks * places.place_blocks
    return Cut(units, found, {**numbers, "row_blocks": row_blocks})


def _weighing(work: Work, width: int, slices: int) -> Cut:
    taps = work.window.taps
    columns, column_blocks = even(work.channels, _CHANNELS, width)
    wanted = -(-slices // (work.groups * column_blocks * work.parts))
    most = max(min(_ROWS, -(-work.taps // wanted)), MICRO_ROWS)
    if taps <= most:
        channels, row_blocks = even(work.x.channels, most // taps)
        rows = channels * taps
    else:
        rows, row_blocks = even(work.taps, most, MICRO_ROWS)
        channels = min(2, work.x.channels)
    images = -(-work.x.count // work.parts)
    places = block(images, work.area, DEPTH, width)
    found = box(work.x, work.window, work.out_sides, places, channels)
    numbers = {
        "m": work.taps,
        "n": work.channels,
        "k": work.taps,
        "parts": work.parts,
        "images_of_part": images,
    }
    numbers |= _sizes(work, found, places, rows, -(-columns // width) * width, width)
    numbers |= {
        "columns": -(-columns // width) * width,
        "row_blocks": row_blocks,
        "column_blocks": column_blocks,
    }
    return Cut(work.groups * row_blocks * column_blocks * work.parts, found, numbers)


def _sizes(work: Work, found: Box, cut: Block, rows: int, columns: int, width: int) -> dict[str, int]:
    """Blocks, the box, and what the room holds: a block of rows, a panel, the sums, the places and the box."""
    size = 8 if work.x.dtype == f64 else 4
    places = cut.images * cut.places + width
    parts = (
        rows * DEPTH * size,
        DEPTH * width * size,
        rows * columns * size,
        places * 8,
        found.elements * size,
    )
    ends = list(itertools.accumulate(-(-n // _LINE) * _LINE for n in parts))
    numbers = dict(zip(("panel_at", "sums_at", "places_at", "box_at", "room_bytes"), ends, strict=True))
    return {
        **numbers, "rows": rows, "columns": columns,
        "images_at_once": cut.images, "places_at_once": cut.places,
        "image_blocks": cut.image_blocks, "place_blocks": cut.place_blocks,
        "direct": found.direct, "box_rows": found.rows, "phase": found.phase, "row_pitch": found.row_pitch,
        "channel_pitch": found.channel_pitch, "image_pitch": found.image_pitch,
    }  # fmt: skip


def _described(work: Work) -> dict[str, int]:
    x, window = work.x, work.window
    names = {
        "x": ("group", "image", "channel", "row", "column"),
        "other": ("group", "image", "row", "column"),
        "out": ("group", "image", "row", "column"),
    }
    steps = {"x": x.steps, "other": work.other, "out": work.out}
    found = {f"{n}_{axis}": s for n, axes in names.items() for axis, s in zip(axes, steps[n], strict=True)}
    return found | {
        "images": x.count, "area": work.area, "out_width": work.out_sides[1],
        "channels": work.channels * work.groups, "taps_of_channel": window.taps,
        "height": x.sides[0], "width": x.sides[1],
        "padding_y": window.padding[0], "padding_x": window.padding[1],
        "stride_y": window.stride[0], "stride_x": window.stride[1],
    }  # fmt: skip


def work_of(scalars: Mapping[str, Any], dtypes: Mapping[str, DType], groups: int) -> Work:
    """What a tile `conv2d` or `conv2d_weight` is asked for, by its scalars and its buffers' dtypes."""
    s = {name: int(x) for name, x in scalars.items()}

    def pair(name: str) -> tuple[int, int]:
        return s[f"{name}_y"], s[f"{name}_x"]

    def steps(name: str, *axes: str) -> tuple[int, ...]:
        return tuple(s[f"{name}_{axis}"] * dtypes[name].itemsize for axis in axes)

    window = Window(
        (s["window_height"], s["window_width"]), pair("stride"), pair("padding"), pair("dilation")
    )
    image, channel, row, column = steps("x", "image", "channel", "row", "column")
    x = Images(
        dtypes["x"], s["n"] // s["area"], s["channels"], (s["height"], s["width"]),
        (channel * s["channels"], image, channel, row, column),
    )  # fmt: skip
    sides = (s["area"] // s["out_width"], s["out_width"])
    if "parts" in s:
        of_image, of_channel, place = steps("y", "image", "channel", "place")
        part, line, tap = steps("out", "part", "row", "column")
        other, out = (of_channel * s["m"], of_image, place, of_channel), (line * s["m"], part, tap, line)
        return Work(x, window, sides, groups, s["m"], other, out, dtypes["out"], s["parts"])
    line, tap = steps("weight", "row", "column")
    of_image, of_channel, place = steps("out", "image", "channel", "place")
    other, out = (line * s["m"], 0, line, tap), (of_channel * s["m"], of_image, of_channel, place)
    return Work(x, window, sides, groups, s["m"], other, out, dtypes["out"])
