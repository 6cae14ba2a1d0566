"""Templates: what structures of one class launch, whatever their sizes.

Once some structures of a class were met, the next is traced: it is planned once more with sizes that remember what is
computed from them (foundation/sizes.py). From then on a structure of the class is arithmetic, as long as it decides as
that one did. The first few are compared with what planning gives; a template that differs from it is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from hologram.foundation.bounded_caches import FIFOCache
from hologram.foundation.errors import HologramError
from hologram.foundation.sizes import Real, Size, Trace
from hologram.machine.kernel import Area, Draft
from hologram.machine.layout import Layout
from hologram.machine.plan import Given, Step
from hologram.runtime.launches.launcher import Placed, Structure
from hologram.runtime.launches.recording import Unrepeatable
from hologram.runtime.launches.shape_classes import class_of, lifted_layouts
from hologram.runtime.launches.validation import cache_key
from hologram.runtime.memory.allocation import BufferSpec
from hologram.runtime.memory.view import LINE

MET = 2  # structures of a class that are learnt before one is traced: many classes have no more
COMPARED = 2  # structures that go both ways, and agree
MOST = 16  # templates of a class
MAX_CLASSES = 2048

F = TypeVar("F")


class Template:
    """What structures of a class launch, by the sizes that the class leaves open, and what else follows from them.

    `kind` makes a Kind; `others` are the objects beside the structure, of the `classes` and of tuples.
    """

    def __init__(
        self,
        structure: Structure | None,
        trace: Trace,
        draft: Draft | None,
        kind: Callable[..., BufferSpec],
        others: tuple[Any, ...],
        classes: Sequence[type] = (),
    ) -> None:
        self._draft = draft
        self._structure = structure
        code = _Code({"kind": kind}, (Area, Placed, *classes))
        parts: tuple[Any, ...] = others
        if structure is not None:
            parts += (structure.sizes, structure.arenas, structure.kinds, draft and draft.words)
        self._make = trace.function(code.of(parts), code.names)
        # Few launches are asked for their steps: those that are watched, or have no draft.
        self._steps = trace.function(code.of(structure.steps if structure else ()), code.names, checked=False)

    def of(self, sizes: Sequence[int]) -> tuple[Structure | None, Sequence[Any]] | None:
        """A structure, and what else follows from its sizes; None where it decides otherwise than the traced one."""
        try:
            parts = self._make(*sizes)
        except (ArithmeticError, HologramError):
            return None
        if parts is None or self._structure is None:
            return parts and (None, parts)
        *others, nbytes, arenas, kinds, words = parts
        finish = None if self._draft is None else partial(self._draft.finish, words)
        steps, traced = partial(self._steps, *sizes), self._structure
        made = Structure(traced.launches, steps, nbytes, arenas, kinds, finish=finish, held=traced.held)
        return made, others


class _Code:
    """Objects with sizes in them as an expression that makes others like them."""

    def __init__(self, known: dict[str, Any], classes: Sequence[type]) -> None:
        self.names = known
        self.names |= {c.__name__: c for c in (Layout, Step, *classes)}
        self._classes = classes

    def of(self, x: Any) -> str:
        kind = type(x)
        if kind is Size or kind is Real:
            return x.name
        if kind is int:
            return repr(x)
        if kind is tuple:
            return "".join(["(", *(f"{self.of(item)}, " for item in x), ")"])
        if kind is BufferSpec:
            return f"kind({self.of(x.shape)}, {self._constant(x.dtype)})"
        if kind in self._classes:
            return f"{kind.__name__}({', '.join(self.of(getattr(x, f.name)) for f in fields(x))})"
        if kind is Layout:
            rest = f"{self.of(x.shape)}, {self.of(x.strides)}, {self.of(x.offset)}, {x.repeats}"
            return f"Layout({self._constant(x.dtype)}, {rest})"
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


class Made(Protocol[F]):
    """What gives something for sizes, where it fits them."""

    def __call__(self, sizes: Sequence[int], /) -> F | None: ...


def _nothing(sizes: Sequence[int]) -> None:
    """What fits no sizes."""


class _Variant(Generic[F]):
    def __init__(self, made: Made[F]) -> None:
        self.made = made
        self.compared = 0
        self.trusted = False


class Variants(Generic[F]):
    """The templates of a class, each for structures that decide alike; none at first."""

    def __init__(self) -> None:
        self.variants: tuple[_Variant[F], ...] = ()
        self._met = 1
        self._closed = False  # whether there will be no more

    def fitting(self, sizes: Sequence[int]) -> tuple[_Variant[F], F] | None:
        """The template that fits a structure, and what it gives."""
        variants = self.variants  # of which other threads may make others
        for variant in variants:
            made = variant.made(sizes)
            if made is not None:
                if variant is not variants[0]:  # the next will be like it
                    self.variants = (variant, *self._without(variant))
                return variant, made
        return None

    def unfit(self, trace: Callable[[], Made[F] | None]) -> None:
        """Takes note of a structure that no template fits; `trace` makes one that does."""
        self._met += 1
        if self._met <= MET or self._closed:
            return
        made = trace()
        if made is not None:
            self.variants = (_Variant(made), *self.variants)
        if made is None or len(self.variants) > MOST:  # those that fitted once may fit again
            self.variants = tuple(v for v in self.variants if v.compared)
            self._closed = made is None or len(self.variants) > MOST // 2 or not self.variants

    def compare(self, variant: _Variant[F], agrees: bool) -> None:
        """Gives a template up that differs from what the long way gave; fewer are compared where others agreed."""
        if not agrees:
            variant.made = _nothing  # also for a thread that puts it back at this moment
            self.variants = self._without(variant)
            self._closed = True
            return
        variant.compared += 1
        enough = 1 if any(v.compared >= COMPARED for v in self.variants) else COMPARED
        variant.trusted = variant.compared >= enough

    def _without(self, variant: _Variant[F]) -> tuple[_Variant[F], ...]:
        return tuple(v for v in self.variants if v is not variant)


def content(structure: Structure | None) -> Any:
    """What a structure launches, to be compared."""
    if structure is None:
        return None
    kinds = [kind.layout for kind in structure.kinds]
    return [_launched(p) for p in structure.steps], structure.sizes, structure.arenas, kinds


def _launched(placed: Placed) -> Any:
    step = placed.step
    scalars = [(Given, x.argument) if type(x) is Given else cache_key(x) for x in step.scalars]
    return step.kernel, step.operands, scalars, step.grid, placed.areas


def alike(guess: Structure | None, learnt: Structure | None, places: Sequence[Any] = ()) -> bool:
    """Whether two structures launch the same, by their drafts as well; see drafted."""
    return content(guess) == content(learnt) and _same_draft(guess, learnt, places)


def _same_draft(guess: Structure | None, learnt: Structure | None, places: Sequence[Any]) -> bool:
    """Whether the words of a draft are those that the structure makes."""
    finish = None if guess is None else guess.finish
    if not isinstance(finish, partial):
        return True
    draft = drafted(learnt, places)
    return draft is not None and (draft.words,) == finish.args


def drafted(structure: Structure | None, places: Sequence[Any] = ()) -> Draft | None:
    """The draft of a structure's launch, on memory somewhere, as far into cache lines as these places."""
    if structure is None:
        return None
    example = [float(k) if size is None else (k + 1) << 40 for k, size in enumerate(structure.sizes)]
    for k, place in enumerate(places):
        if structure.sizes[k] is not None:
            example[k] += place % LINE
    example += [(len(example) + k + 1) << 40 for k in range(len(structure.arenas))]
    return structure.launches.draft(structure, example)


Planner = Callable[[Sequence[Layout]], Structure]


class Templates:
    """The templates of structures that an engine learns, by class."""

    def __init__(self, kind: Callable[..., BufferSpec]) -> None:
        self._kind = kind
        self._known: FIFOCache[Any, Variants[Structure]] = FIFOCache(MAX_CLASSES)

    def structure(self, key: Sequence[Any]) -> Structure | None:
        """What is run for a key that was not met, where a template is trusted with it."""
        name, sizes = class_of(key)
        variants = self._known.get(name)
        if variants is None or not variants.variants:
            return None
        fit = variants.fitting(tuple(sizes))
        return fit[1] if fit is not None and fit[0].trusted else None

    def learn(
        self, key: Sequence[Any], structure: Structure, plan: Planner, places: Sequence[Any] = ()
    ) -> None:
        """Takes note of what was planned for a key; `plan` does it for layouts in place of the key's.

        `places` are those of the operands, which say how far into a cache line large outputs begin.
        """
        name, sizes = class_of(key)
        if not sizes:
            return
        variants = self._known.get(name)
        if variants is None:
            self._known.keep(name, Variants())
            return
        fit = variants.fitting(tuple(sizes))
        if fit is None:
            variants.unfit(partial(self.traced, key, sizes, plan, places))
        else:
            variants.compare(fit[0], alike(fit[1], structure, places))

    def traced(
        self, key: Sequence[Any], sizes: dict[int, int], plan: Planner, places: Sequence[Any] = ()
    ) -> Made[Structure] | None:
        """Plans once more, with sizes that remember; None where that cannot be done."""
        trace = Trace()
        try:
            with suppress(Exception):  # what an operation makes of such sizes is its own affair
                structure = plan(lifted_layouts(key, sizes, trace))
                if not structure.values:
                    template = Template(structure, trace, drafted(structure, places), self._kind, ())
                    return lambda sizes: (template.of(sizes) or (None,))[0]
            return None
        finally:
            trace.close()
