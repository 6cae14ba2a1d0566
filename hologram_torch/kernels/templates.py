"""Templates: what calls of one class launch, whatever their sizes.

The class of a call is its structure (quick.py) with the sizes left open: which of them are 0, 1 or equal, and which
strides follow from which sizes. The second structure of a class is traced: the kernel goes its long way once more with
sizes that remember what is computed from them (hologram/sizes.py), and launches nothing. From then on a structure of the
class is a recipe by arithmetic, as long as it decides as that one did. The first few are compared with what the long way
gives; a template that differs from it is given up.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import torch

from hologram.device import Area, Draft
from hologram.errors import HologramError
from hologram.frontend.tensor import Tensor
from hologram.layout import Layout
from hologram.plan import Given, Step
from hologram.runtime.allocation import Kind
from hologram.runtime.buffer import Buffer
from hologram.runtime.launches import Placed, Structure
from hologram.runtime.recording import Recording, Unrepeatable
from hologram.runtime.validation import exactly
from hologram.sizes import Real, Size, Trace, plain
from hologram_torch.kernels.kernel import Expected, Kernel
from hologram_torch.kernels.learnt import Arguments, recipe_of
from hologram_torch.kernels.recipe import Made, Recipe
from hologram_torch.tensors.memory import hologram_tensor

debug = os.environ.get("TT")
COMPARED = 2  # structures of a class that go both ways
MOST = 16  # templates of a class


class Class:
    """The class of a call, and the sizes that it leaves open."""

    def __init__(self) -> None:
        self.key: list[Any] = []
        self.sizes: dict[int, int] = {}  # their numbers, by value
        self.tensors: list[
            tuple[torch.Tensor, list[Any], list[Any]]
        ] = []  # each with its shape's and strides' marks

    def take(self, given: Sequence[Any], told: bool) -> None:
        """Adds arguments; see quick.take."""
        for x in given:
            kind = type(x)
            if isinstance(x, torch.Tensor):
                self._tensor(x)
            elif kind is float:
                self.key.append(kind if told else (kind, exactly(x)))
            elif kind is list or kind is tuple:
                self.key.append((kind, len(x)))
                self.take(x, told)
            else:
                self.key += (kind, x)

    def _tensor(self, x: torch.Tensor) -> None:
        engine = x.untyped_storage().payload.executor  # pyright: ignore[reportAttributeAccessIssue]
        behind = x.storage_offset() * x.itemsize % engine.limits.binding_alignment
        shape, strides = tuple(x.shape), x.stride()
        sizes = [self._mark(n) for n in shape]
        steps = [self._step(k, shape, strides) for k in range(len(shape))]
        self.tensors.append((x, sizes, steps))
        self.key += (engine, x.dtype, behind, *sizes, *steps)

    def _mark(self, n: int) -> Any:
        """A size in the key: itself where it is 0 or 1, else a number for it."""
        return n if n < 2 else (self.sizes.setdefault(n, len(self.sizes)),)

    def _step(self, axis: int, shape: Sequence[int], strides: Sequence[int]) -> Any:
        """A stride in the key: as a size, or the axis that it steps over."""
        step = strides[axis]
        if step > 1:
            for k in (*range(axis + 1, len(shape)), *range(axis)):
                if shape[k] > 1 and 0 < strides[k] and strides[k] * shape[k] == step:
                    return k, axis
        return self._mark(step)

    def lifted(self, trace: Trace) -> list[Tensor]:
        """The tensors with sizes of a trace, in the same memory; see `settle`."""
        symbols = [trace.symbol(n) for n in self.sizes]
        return [_lifted(x, sizes, steps, symbols) for x, sizes, steps in self.tensors]


def _lifted(x: torch.Tensor, sizes: list[Any], steps: list[Any], symbols: list[Size]) -> Tensor:
    def value(mark: Any) -> Any:
        return symbols[mark[0]] if type(mark) is tuple else mark

    def stride(mark: Any) -> Any:
        return (
            stride(steps[mark[0]]) * value(sizes[mark[0]])
            if mark.__class__ is tuple and len(mark) == 2
            else value(mark)
        )

    tensor = hologram_tensor(x)
    buffer = tensor.buffer
    layout = Layout(
        tensor.layout.dtype, tuple(map(value, sizes)), tuple(map(stride, steps)), tensor.layout.offset
    )
    block = buffer.live_block()
    low, high = layout.span
    return Tensor(Buffer(buffer.executor, block, Kind((high,), layout.dtype)), layout)


def class_of(taken: Arguments, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Class | None:
    """The class of a call; None for what has none: no sizes, or operands of one memory."""
    blocks = taken.blocks
    if not blocks or len(set(blocks)) < len(set(map(id, taken.sources))) or any(b.adopted for b in blocks):
        return None
    found = Class()
    found.key += (torch.get_default_dtype(), *kwargs)
    try:
        found.take(args, taken.told)
        found.take(tuple(kwargs.values()), taken.told)
    except RecursionError:
        return None
    found.key = tuple(found.key)
    return found if found.sizes else None


class Template:
    """What structures of a class launch, by the sizes that the class leaves open."""

    def __init__(self, recipe: Recipe, trace: Trace, draft: Draft | None) -> None:
        self._recipe = recipe
        self._draft = draft
        structure = recipe.structure
        code = _Code({"kind": recipe.engine.kind})
        parts = (recipe.kinds, recipe.results, recipe.only)
        if structure is not None:
            parts += (structure.steps, structure.sizes, structure.arenas, draft and draft.words)
        self._make = trace.function(code.of(parts), code.names)
        self.compared = 0
        self.trace = trace

    @property
    def trusted(self) -> bool:
        """Whether enough structures went both ways."""
        return self.compared >= COMPARED

    def recipe(self, sizes: Sequence[int]) -> Recipe | None:
        """The recipe of a structure; None where it decides otherwise than the one that was traced."""
        try:
            found = self._make(*sizes)
        except (ArithmeticError, HologramError):
            found = None
        if found is None:
            if debug:
                env = dict(zip([s.name for s in self.trace.symbols], sizes))
                for n, e in self.trace.lines:
                    if n:
                        env[n] = eval(e, {}, env)
                    elif not eval(e, {}, env):
                        print(
                            "FAILS",
                            e,
                            {k: v for k, v in env.items() if k in e or k[0] == "s"},
                            [l for l in self.trace.lines if l[0] and l[0] in e],
                            dict(zip([s.name for s in self.trace.symbols], map(plain, self.trace.symbols))),
                        )
                        break
            return None
        one = self._recipe
        kinds, results, only, *rest = found
        structure = None
        if one.structure is not None:
            steps, nbytes, arenas, words = rest
            finish = None if self._draft is None else partial(self._draft.finish, words)
            structure = Structure(one.engine.bound, steps, nbytes, arenas, finish=finish)
        return Recipe(
            one.engine,
            structure,
            kinds,
            one.numbers,
            results,
            one.form,
            only,
            one.index,
            one.bounds,
            one.flags,
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
    if type(x) in (Size, Real):
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
        self.templates: list[Template] = []
        self.given_up = False

    def found(self, sizes: Sequence[int]) -> tuple[Template | None, Recipe | None]:
        """The template that fits a structure, and its recipe."""
        for template in self.templates:
            recipe = template.recipe(sizes)
            if recipe is not None:
                if template is not self.templates[0]:  # the next will be like it
                    self.templates = [template, *(t for t in self.templates if t is not template)]
                return template, recipe
        return None, None

    def add(self, template: Template | None) -> None:
        """Takes a template; there are no more where too many fit a single structure."""
        if template is not None:
            self.templates.append(template)
        if template is None or len(self.templates) > MOST:
            self.templates = [t for t in self.templates if t.compared]
            self.given_up = template is None or len(self.templates) > MOST // 2 or not self.templates

    def compare(self, template: Template, guess: Recipe, learnt: Recipe) -> None:
        """Gives a template up whose recipe for a structure is not what the long way gave."""
        if alike(guess, learnt) and _same_draft(guess, learnt):
            template.compared += 1
            return
        if debug:
            print("DIFFER", [(a,b) for a,b in zip(_content(guess), _content(learnt)) if a!=b])
        self.templates.remove(template)
        self.given_up = True


def alike(one: Recipe, other: Recipe) -> bool:
    """Whether two recipes launch the same and give the same."""
    return _content(one) == _content(other)


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
    structure = guess.structure
    if structure is None or structure.finish is None:
        return True
    found = _drafted(learnt)
    if debug and (found is None or found.words != structure.finish.args[0]):
        print(
            "WORDS",
            found
            and [(k, a, b) for k, (a, b) in enumerate(zip(found.words, structure.finish.args[0])) if a != b],
        )
    return found is not None and found.words == structure.finish.args[0]  # type: ignore[attr-defined]


def _drafted(recipe: Recipe) -> Draft | None:
    """The draft of a recipe's launch, on memory somewhere."""
    structure = recipe.structure
    if structure is None:
        return None
    example = [float(k) if size is None else (k + 1) << 40 for k, size in enumerate(structure.sizes)]
    example += [(len(example) + k + 1) << 40 for k in range(len(structure.arenas))]
    return recipe.engine.bound.draft(structure, example)


def promised(recipe: Recipe, expected: Expected) -> bool:
    """Whether a recipe's results are as PyTorch expects them."""
    if not expected.results:
        return True
    made = [x.layout.shape for x in recipe.results if type(x) is Made]
    wanted = [x.shape for x in expected.results if x is not None]
    return not made or made == wanted


def traced(
    kernel: Kernel,
    call: Class,
    taken: Arguments,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    expected: Expected,
) -> Template | None:
    """Goes the long way with sizes that remember; None where that cannot be done without elements."""
    recording, trace = Recording(dry=True), Trace()
    tensors = call.lifted(trace)
    known = {id(x): tensor for (x, _, _), tensor in zip(call.tensors, tensors, strict=True)}
    try:
        recording.begin()
        try:
            found = kernel.traced(args, kwargs, known, expected)
        finally:
            recording.end()
        recipe = recipe_of(recording, taken, found, expected.dtype)
        if type(recipe) is not Recipe or recipe.guard is not None:
            return None
        return Template(recipe, trace, _drafted(recipe))
    except Exception:
        if debug:
            import traceback

            print(
                "TRACE",
                kernel.name,
                (debug == "2" and traceback.format_exc()) or traceback.format_exc().splitlines()[-3:],
            )
        return None
    finally:
        trace.open = False
        _settle(call, tensors)


def _settle(call: Class, tensors: Sequence[Tensor]) -> None:
    """Gives the memory back to those whose it is."""
    for (x, _, _), tensor in zip(call.tensors, tensors, strict=True):
        buffer = hologram_tensor(x).buffer
        tensor.buffer.block = None
        if buffer.block is not None:
            buffer.block.holder = weakref.ref(buffer)
