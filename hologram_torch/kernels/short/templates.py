"""Templates of recipes: what calls of one class launch and give, whatever their sizes; see runtime/templates.py.

The class of a call is its structure with the sizes left open (classes.py). A trace is the kernel's long way, once more
with sizes that remember, which launches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from hologram.foundation.sizes import Trace
from hologram.runtime.launches.recording import Recording
from hologram.runtime.launches.templates import Template, alike, drafted
from hologram.runtime.launches.validation import cache_key
from hologram_torch.kernels.kernel import Expected
from hologram_torch.kernels.short.classes import Class
from hologram_torch.kernels.short.learnt import Arguments, recipe_of
from hologram_torch.kernels.short.recipe import Made, Recipe


class Recipes:
    """The recipes of a class, by the sizes that it leaves open."""

    def __init__(self, recipe: Recipe, trace: Trace, places: Sequence[int]) -> None:
        self._recipe = recipe
        structure = recipe.structure
        others = (recipe.kinds, recipe.results, recipe.only, recipe.numbers)
        self._template = Template(
            structure, trace, drafted(structure, places), recipe.engine.kind, others, (Made,)
        )

    def __call__(self, sizes: Sequence[int]) -> Recipe | None:
        """The recipe of a structure; None where it decides otherwise than the one that was traced."""
        parts = self._template.of(sizes)
        if parts is None:
            return None
        structure, (kinds, results, only, numbers) = parts
        one = self._recipe  # each time, where dataclasses.replace would take longer than all else here
        return Recipe(
            one.engine, structure, kinds, numbers, results, one.form, only, one.index, one.bounds, one.flags
        )


def agrees(one: Recipe, other: Recipe, places: Sequence[int]) -> bool:
    """Whether two recipes launch the same and give the same, on tensors at places."""
    return _content(one) == _content(other) and alike(one.structure, other.structure, places)


def _content(recipe: Recipe) -> Any:
    kinds = [kind.layout for kind in recipe.kinds]
    rest = (recipe.results, recipe.form, recipe.only, recipe.bounds, recipe.flags)
    return kinds, cache_key(recipe.numbers), rest


def traced(
    call: Class, taken: Arguments, args: Sequence[Any], kwargs: dict[str, Any], expected: Expected
) -> Recipes | None:
    """Goes the long way with sizes that remember; None where that cannot be done without elements."""
    kernel, recording, trace = call.kernel, Recording(dry=True), Trace()
    tensors = call.lifted(trace)
    known = {id(x): tensor for (x, _, _), tensor in zip(call.tensors, tensors, strict=True)}
    try:
        with suppress(Exception):  # what a kernel makes of such sizes is its own affair
            recording.begin()
            try:
                lifted = [call.with_sizes(name, x) for name, x in zip(kernel.names, args, strict=False)]
                named = {name: call.with_sizes(name, x) for name, x in kwargs.items()}
                results = kernel.traced(lifted, named, known, expected)
            finally:
                recording.end()
            recipe = recipe_of(recording, taken, results, expected.dtype)
            if type(recipe) is Recipe:
                return Recipes(recipe, trace, taken.places)
        return None
    finally:
        trace.close()
