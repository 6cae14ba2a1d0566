"""Random functions give the same jitted as eagerly: fused code rounds every value as single operations do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.compiled.told import OFTEN
from tests.frontend.jit.recipe_steps import Kind
from tests.frontend.jit.recipes import Recipe, arguments, recipes, run

# Where a reduction adds in another order, and steeper functions follow: far above any rounding, far below a value that
# is read from the wrong place.
SLACK = 2.0**-7


def check(recipe: Recipe, executor: hg.Executor, donate: bool = False) -> None:
    """Runs a recipe eagerly, then jitted, unless its arguments are given away as often as its launches take forms."""
    tensors = arguments(recipe, executor)
    skipped: set[int] = set()
    wanted = [(t.dtype, bits(t)) for t in run(recipe, tensors, skipped)]
    recipe = replace(recipe, steps=tuple(k for k in recipe.steps if k not in skipped))
    before = [bits(t) for t in tensors]
    refused: set[int] = set()

    def recorded(*args: Any) -> Any:
        return run(recipe, args, refused)

    jitted = hg.jit(recorded, donate=tuple(range(len(tensors))) if donate else ())
    bound = executor.device.info.backend.startswith(("cuda", "metal"))  # told, bound, and in the end graphs
    for _ in range(1 if donate else OFTEN + 4 if bound else 2):
        found = jitted(*tensors)
        assert not refused, f"{recipe}: steps that run eagerly cannot be traced"
        assert [t.dtype for t in found] == [dtype for dtype, _ in wanted], recipe
        for tensor, (_, array) in zip(found, wanted, strict=True):
            agree(bits(tensor), array, recipe, signed=executor.limits.host_resident)
    for tensor, array in zip(tensors, before if not donate else (), strict=not donate):
        np.testing.assert_array_equal(bits(tensor), array, err_msg=f"an argument of {recipe} was written to")


def bits(tensor: hg.Tensor) -> np.ndarray:
    """The elements; those of bf16, which NumPy does not compute with, as f32."""
    return (tensor.astype("f32") if tensor.dtype.name == "bf16" else tensor).to_numpy()


def agree(ours: np.ndarray, wanted: np.ndarray, recipe: Recipe, signed: bool) -> None:
    """Compares; GPUs do not promise the sign of zeros."""
    if recipe.kind is Kind.SMOOTH and wanted.dtype.kind == "f" and wanted.size:
        largest = float(np.nanmax(np.abs(wanted[np.isfinite(wanted)]), initial=1.0))
        np.testing.assert_allclose(ours, wanted, rtol=SLACK, atol=SLACK * largest, err_msg=str(recipe))
    else:
        np.testing.assert_array_equal(ours, wanted, err_msg=str(recipe))
    if signed and recipe.kind is not Kind.SMOOTH and wanted.dtype.kind == "f":
        known = ~np.isnan(wanted)
        np.testing.assert_array_equal(
            np.signbit(ours)[known], np.signbit(wanted)[known], err_msg=f"the sign of zeros in {recipe}"
        )


@pytest.mark.parametrize("first", range(0, 48, 12))
def test_exact_functions(executor: hg.Executor, first: int) -> None:
    for recipe in recipes(Kind.EXACT, first, 12):
        check(recipe, executor)


@pytest.mark.parametrize("first", range(1000, 1024, 12))
def test_functions_of_all_kinds_round_alike(executor: hg.Executor, first: int) -> None:
    # A driver may contract a * b + c within a function as it sees fit.
    kind = Kind.FUNCTIONS if executor.limits.host_resident else Kind.EXACT
    for recipe in recipes(kind, first, 12):
        check(recipe, executor)


@pytest.mark.parametrize("first", range(2000, 2030, 15))
def test_reductions_of_all_kinds(executor: hg.Executor, first: int) -> None:
    for recipe in recipes(Kind.SMOOTH, first, 15):
        check(recipe, executor)


def test_functions_that_are_given_their_arguments(executor: hg.Executor) -> None:
    for recipe in recipes(Kind.EXACT, 3000, 18):
        check(recipe, executor, donate=True)
