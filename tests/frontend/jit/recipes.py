"""Random functions of tensors: what a recipe does depends on its seed and on shapes and dtypes, never on elements.

What an exact recipe gives does not depend on the order in which a reduction adds, nor on whether a * b + c is rounded
once or twice: products and sums are those of small whole numbers. Every step draws from a generator of its own, so
that a recipe that fails can be made shorter without changing what the rest of it draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import hologram as hg
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from tests.frontend.jit.recipe_steps import DTYPES, MOST_ELEMENTS, STEPS, Draw, Kind, Pool, Unfit, view

SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 17)


@dataclass(frozen=True)
class Recipe:
    """A function's steps, by number."""

    seed: int
    steps: tuple[int, ...]
    kind: Kind

    def draw(self, *what: int) -> Draw:
        return np.random.default_rng((self.seed, *what))


# Arguments.


def elements(draw: Draw, shape: Sequence[int], dtype: DType, smooth: bool, promised: bool) -> np.ndarray:
    """Random elements; unless all is to be smooth, with integers' extremes and, where they are `promised`, all floats.

    A driver may flush denormals.
    """
    if dtype.kind == "bool":
        return draw.random(shape) < 0.5
    if not dtype.is_float:
        low = 0 if dtype.kind == "uint" else -9
        array = draw.integers(low, 10, shape).astype(dtype.numpy)
        info = np.iinfo(dtype.numpy)
        odd = np.array([info.min, info.max, 0, 1, info.max - 1], dtype.numpy)
    elif smooth:
        return (draw.uniform(0.5, 2, shape) * draw.choice([-1, 1], shape)).astype(np.float32)
    else:
        array = (draw.standard_normal(shape) * draw.choice([1, 30])).astype(np.float32)
        odd = np.array(
            [0.0, -0.0, 1.0, 2.5, -300.0, np.nan, np.inf, -np.inf, 3e-40, 3e-6, 1e30, -65504], np.float32
        )
        odd = odd if promised else odd[np.abs(odd) != np.float32(3e-40)]
    if not smooth and draw.random() < 0.6:
        array = np.where(draw.random(shape) < 0.15, draw.choice(odd, shape), array)
    return array


def shape_of(draw: Draw) -> tuple[int, ...]:
    sizes = SIZES if draw.random() < 0.25 else SIZES[1:]
    return tuple(int(n) for n in draw.choice(sizes, draw.integers(0, 5)))


def arguments(recipe: Recipe, executor: hg.Executor) -> list[hg.Tensor]:
    """1 to 4 tensors, some of them views, some of one buffer, their shapes often alike."""
    draw = recipe.draw(0)
    smooth = recipe.kind.smooth
    known = [d for d in (("f32", "f64") if smooth else DTYPES) if dtypes.dtype(d) in executor.limits.dtypes]
    common = shape_of(draw)
    found: list[hg.Tensor] = []
    for _ in range(draw.integers(1, 5)):
        if found and draw.random() < 0.2:
            tensor = found[int(draw.integers(len(found)))]
        else:
            dtype = dtypes.dtype(str(draw.choice(known)) if draw.random() < 0.6 else "f32")
            shape = common if draw.random() < 0.7 else shape_of(draw)
            if np.prod(shape, dtype=int) > MOST_ELEMENTS:
                shape = shape[:2]
            tensor = executor.tensor(
                elements(draw, shape, dtype, smooth, executor.limits.host_resident)
            ).astype(dtype, copy=False)
        for _ in range(draw.choice([0, 0, 1, 2])):
            tensor = view(draw, tensor)
        found.append(tensor)
    return found


# The function.


def run(recipe: Recipe, tensors: Sequence[hg.Tensor], skipped: set[int] | None = None) -> list[Any]:
    """The recipe's function. Steps that the tensors at hand do not allow are left out, and noted in `skipped`."""
    pool = list(tensors)
    given = {id(t.buffer) for t in tensors}
    steps = STEPS[recipe.kind]
    for number in recipe.steps:
        draw = recipe.draw(1, number)
        step = steps[int(draw.integers(len(steps)))]
        try:
            result = step(
                Pool(draw, pool, lambda t: id(t.buffer) not in given and own(t, tensors), recipe.kind.smooth)
            )
        except (Unfit, hg.ShapeError, hg.UnsupportedDType, IndexError) as error:
            if isinstance(error, hg.TraceError):
                raise
            if skipped is not None:
                skipped.add(number)
            continue
        pool += [t for t in (result if isinstance(result, list) else [result]) if t is not None]
    return outputs(recipe, pool)


def own(tensor: hg.Tensor, given: Sequence[hg.Tensor]) -> bool:
    return type(tensor) is type(given[0])


def outputs(recipe: Recipe, pool: Sequence[hg.Tensor]) -> list[hg.Tensor]:
    """Some of the tensors, late ones above all; repeated ones, arguments, and views of them among those."""
    draw = recipe.draw(2)
    kept = [t for t in pool[-3:] if draw.random() < 0.8] or [pool[-1]]
    while draw.random() < 0.4:
        kept.append(pool[int(draw.integers(len(pool)))])
    if draw.random() < 0.3:
        kept.append(view(draw, kept[0]))
    return kept


def recipes(kind: Kind, first: int, count: int) -> Iterator[Recipe]:
    for seed in range(first, first + count):
        yield Recipe(seed, tuple(range(int(np.random.default_rng(seed).integers(1, 16)))), kind)
