"""Templates: what calls of one class launch, whatever their sizes.

The class of a call is its structure with the sizes left open: which of them are 0, 1 or equal, and which strides follow
from which sizes. Once some structures of a class were met, the next is traced: the kernel goes its long way once more
with sizes that remember what is computed from them (hologram/sizes.py), and launches nothing. From then on a structure
of the class is a recipe by arithmetic, as long as it decides as that one did. The first few are compared with what the
long way gives; a template that differs from it is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

from hologram.device import Area, Draft
from hologram.errors import HologramError
from hologram.layout import Layout
from hologram.plan import Given, Step
from hologram.runtime.allocation import Kind
from hologram.runtime.launches import Placed, Structure
from hologram.runtime.recording import Recording, Unrepeatable
from hologram.runtime.validation import exactly
from hologram.sizes import Real, Size, Trace
from hologram_torch.kernels.classes import Class
from hologram_torch.kernels.kernel import Expected
from hologram_torch.kernels.learnt import Arguments, recipe_of
from hologram_torch.kernels.recipe import Made, Recipe

MET = 2  # structures of a class that are learnt before one is traced: many classes have no more
COMPARED = 2  # structures that go both ways, and agree
MOST = 16  # templates of a class


class Template:
    """What structures of a class launch, by the sizes that the class leaves open."""

    def __init__(self, recipe: Recipe, trace: Trace, draft: Draft | None) -> None:
        self._recipe = recipe
        self._draft = draft
        structure = recipe.structure
        code = _Code({"kind": recipe.engine.kind})
        parts = (recipe.kinds, recipe.results, recipe.only, recipe.numbers)
        if structure is not None:
            parts += (structure.sizes, structure.arenas, draft and draft.words)
        self._make = trace.function(code.of(parts), code.names)
        # Few launches are asked for their steps: those that are watched, or have no draft.
        self._steps = trace.function(code.of(structure.steps if structure else ()), code.names, checked=False)
        self.compared = 0

    def recipe(self, sizes: Sequence[int]) -> Recipe | None:
        """The recipe of a structure; None where it decides otherwise than the one that was traced."""
        try:
            found = self._make(*sizes)
        except (ArithmeticError, HologramError):
            return None
        if found is None:
            return None
        kinds, results, only, numbers, *rest = found
        structure = None
        if rest:
            nbytes, arenas, words = rest
            finish = None if self._draft is None else partial(self._draft.finish, words)
            steps = partial(self._steps, *sizes)
            structure = Structure(self._recipe.engine.bound, steps, nbytes, arenas, finish=finish)
        one = self._recipe  # each time, where dataclasses.replace would take longer than all else here
        return Recipe(
            one.engine, structure, kinds, numbers, results, one.form, only, one.index, one.bounds, one.flags
        )


class _Code:
    """Objects with sizes in them as an expression that makes others like them."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.names = known
        self.names |= {c.__name__: c for c in (Area, Layout, Made, Placed, Step)}

    def of(self, x: Any) -> str:
        kind = type(x)
        if kind is Size or kind is Real:
            return x.name
        if kind is int:
            return repr(x)
        if kind is tuple:
            return "".join(["(", *(f"{self.of(item)}, " for item in x), ")"])
        if kind is Kind:
            return f"kind({self.of(x.shape)}, {self._constant(x.dtype)})"
        if kind in (Area, Made, Placed):
            return f"{kind.__name__}({', '.join(self.of(getattr(x, f.name)) for f in fields(x))})"
        if kind is Layout:
            return f"Layout({self._constant(x.dtype)}, {self.of(x.shape)}, {self.of(x.strides)}, {self.of(x.offset)})"
        if kind is Step:
            kernel = self._constant(x.kernel)
            return f"Step({kernel}, {self.of(x.operands)}, {self.of(x.scalars)}, {self.of(x.grid)})"
        return self._constant(x)

    def _constant(self, x: Any) -> str:
        if _sized(x, set()):
            raise Unrepeatable
        name = f"c{len(self.names)}"
        self.names[name] = x
        return name


def _sized(x: Any, seen: set[int]) -> bool:
    """Whether there is a size in an object."""
    if isinstance(x, (Size, Real)):
        return True
    if isinstance(x, (str, int, float, type(None), Callable)) or id(x) in seen:
        return False
    seen.add(id(x))
    if isinstance(x, Mapping):
        return any(_sized(item, seen) for pair in x.items() for item in pair)
    if isinstance(x, (tuple, list, set, frozenset)):
        return any(_sized(item, seen) for item in x)
    return is_dataclass(x) and any(_sized(getattr(x, f.name), seen) for f in fields(x))


class Variants:
    """The templates of a class, each for structures that decide alike; none at first."""

    def __init__(self) -> None:
        self.templates: tuple[Template, ...] = ()
        self._met = 1
        self._closed = False  # whether there will be no more

    def found(self, sizes: Sequence[int]) -> tuple[Template, Recipe] | None:
        """The template that fits a structure, and its recipe."""
        for template in self.templates:
            recipe = template.recipe(sizes)
            if recipe is not None:
                if template is not self.templates[0]:  # the next will be like it
                    self.templates = (template, *self._without(template))
                return template, recipe
        return None

    def trusted(self, template: Template) -> bool:
        """Whether enough structures went both ways: fewer where others of the class did before."""
        return template.compared >= (1 if any(t.compared >= COMPARED for t in self.templates) else COMPARED)

    def unfit(self, trace: Callable[[], Template | None]) -> None:
        """Takes note of a structure that no template fits; `trace` makes one that does."""
        self._met += 1
        if self._met <= MET or self._closed:
            return
        found = trace()
        if found is not None:
            self.templates = (found, *self.templates)
        if found is None or len(self.templates) > MOST:  # those that fitted once may fit again
            self.templates = tuple(t for t in self.templates if t.compared)
            self._closed = found is None or len(self.templates) > MOST // 2 or not self.templates

    def compare(self, template: Template, guess: Recipe, learnt: Recipe) -> None:
        """Gives a template up whose recipe for a structure is not what the long way gave."""
        if alike(guess, learnt):
            template.compared += 1
        else:
            self.templates = self._without(template)
            self._closed = True

    def _without(self, template: Template) -> tuple[Template, ...]:
        return tuple(t for t in self.templates if t is not template)


def alike(one: Recipe, other: Recipe) -> bool:
    """Whether two recipes launch the same and give the same, by their drafts as well."""
    return _content(one) == _content(other) and _same_draft(one, other)


def _content(recipe: Recipe) -> Any:
    structure = recipe.structure
    launches = structure and ([_launched(p) for p in structure.steps], structure.sizes, structure.arenas)
    kinds = [kind.layout for kind in recipe.kinds]
    rest = (recipe.results, recipe.form, recipe.only, recipe.bounds, recipe.flags, recipe.guard)
    return launches, kinds, exactly(recipe.numbers), rest


def _launched(placed: Placed) -> Any:
    step = placed.step
    scalars = [(Given, x.argument) if type(x) is Given else exactly(x) for x in step.scalars]
    return step.kernel, step.operands, scalars, step.grid, placed.areas


def _same_draft(guess: Recipe, learnt: Recipe) -> bool:
    """Whether the words of a draft are those that the structure makes."""
    finish = None if guess.structure is None else guess.structure.finish
    if not isinstance(finish, partial):
        return True
    found = _drafted(learnt)
    return found is not None and (found.words,) == finish.args


def _drafted(recipe: Recipe) -> Draft | None:
    """The draft of a recipe's launch, on memory somewhere."""
    structure = recipe.structure
    if structure is None:
        return None
    example = [float(k) if size is None else (k + 1) << 40 for k, size in enumerate(structure.sizes)]
    example += [(len(example) + k + 1) << 40 for k in range(len(structure.arenas))]
    return recipe.engine.bound.draft(structure, example)


def traced(
    call: Class, taken: Arguments, args: Sequence[Any], kwargs: dict[str, Any], expected: Expected
) -> Template | None:
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
                found = kernel.traced(lifted, named, known, expected)
            finally:
                recording.end()
            recipe = recipe_of(recording, taken, found, expected.dtype)
            if type(recipe) is Recipe and recipe.guard is None:
                return Template(recipe, trace, _drafted(recipe))
        return None
    finally:
        trace.close()
