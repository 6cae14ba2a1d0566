"""The short way of every call: what a kernel launched for arguments of a structure, it launches for others of it.

A structure is the dtypes, sizes and strides of tensors, which of them share memory, and the values of all else. The
first call of one goes the kernel's long way and is recorded (runtime/recording.py); after that a call is one look-up,
one launch, and the making of tensors. Nothing of it depends on where tensors lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from threading import get_ident
from typing import Any

import torch

from hologram.foundation.bounded_caches import FIFOCache
from hologram.foundation.errors import HologramError
from hologram.frontend.tensor import Tensor
from hologram.runtime.dispatch import Dispatch
from hologram.runtime.launches.recording import Recording, ask, launching
from hologram.runtime.launches.templates import Variants
from hologram.runtime.launches.validation import cache_key
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.view import LARGE, LINE
from hologram_torch.device.devices import devices
from hologram_torch.kernels.kernel import Expected, Kernel
from hologram_torch.kernels.plain import Plain
from hologram_torch.kernels.short.classes import class_of
from hologram_torch.kernels.short.entries import compiled, entry, swift
from hologram_torch.kernels.short.learnt import Arguments, recipe_of
from hologram_torch.kernels.short.recipe import BY_VALUE, Made, Recipe, Same
from hologram_torch.kernels.short.templates import agrees, traced
from hologram_torch.tensors.memory import fresh, torch_tensor
from hologram_torch.watch import unread

Note = Callable[[Any, bool], None]  # is told a recipe, and whether its floats are part of the key
MAX_RECIPES = 1024  # of one operator
MAX_TEMPLATES = 256

tracers = Dispatch.tracers
recordings = Recording.open
default_dtype = torch.get_default_dtype
TorchTensor = torch.Tensor


UNKNOWN = object()
REFUSED = object()
ONCE_MORE = object()  # in a recipe's place: the first call made what others find, and had the host write it


def take(
    given: Sequence[Any],
    told: bool,
    key: list[Any],
    sources: list[torch.Tensor],
    blocks: list[Any],
    places: list[int],
    floats: list[float],
) -> None:
    """Adds arguments to a key and to what differs; AttributeError for tensors of other devices, or freed ones."""
    for x in given:
        kind = type(x)
        if kind is TorchTensor or isinstance(x, TorchTensor):
            buffer = x.untyped_storage().payload  # pyright: ignore[reportAttributeAccessIssue]
            block = buffer.block
            place = block.place
            engine = buffer.executor
            key += (engine, x.dtype, x.shape, x.stride())
            offset = x.storage_offset()
            if offset:
                offset *= x.itemsize
                behind = offset % engine.limits.binding_alignment
                key.append(behind)
                place += offset - behind
            if block.nbytes >= LARGE:
                key.append(place % LINE)
            sources.append(x)
            blocks.append(block)
            places.append(place)
        elif kind is float:
            floats.append(x)
            key.append(kind if told else (kind, cache_key(x)))
        elif kind is complex:
            key.append(cache_key(x))
        elif kind is list or kind is tuple:
            key.append((kind, len(x)))
            take(x, told, key, sources, blocks, places, floats)
        else:
            key += (kind, x)


def _share(key: list[Any], blocks: Sequence[Any], places: Sequence[int]) -> None:
    """Adds to the key how tensors in one memory lie beside one another."""
    for k, block in enumerate(blocks):
        for j in range(k):
            if blocks[j] is block or block.adopted or blocks[j].adopted:
                key.append((j, k, places[k] - places[j]))


class Known:
    """What an operator has learnt: recipes by structure, templates by class."""

    def __init__(self) -> None:
        self.recipes: FIFOCache[Any, Any] = FIFOCache(MAX_RECIPES)
        self.templates: FIFOCache[Any, Any] = FIFOCache(MAX_TEMPLATES)

    def keep(self, key: Any, recipe: Any, note: Note | None, by_value: bool) -> None:
        """Keeps a recipe by its key, and has compiled code know it."""
        if recipe is ONCE_MORE and key in self.recipes:
            recipe = None
        self.recipes.keep(key, recipe)
        if note is not None and recipe is not BY_VALUE and recipe is not ONCE_MORE:
            note(recipe, by_value)


def quick(kernel: Kernel | Plain, operands: int) -> Callable[..., Any]:
    """The kernel, with the short way before it.

    Given so many `operands` and nothing else it computes one operation, which may hand floats on: -1 if there is none.
    """
    known = Known()
    recipes = known.recipes
    entries: FIFOCache[Any, Any] = FIFOCache(MAX_RECIPES)  # for compiled code, by its own keys
    retired: list[Any] = []  # entries of an executor that is closed, which compiled code may be reading

    def call(*args: Any, **kwargs: Any) -> Any:
        return run(args, kwargs)

    def run(args: tuple[Any, ...], kwargs: dict[str, Any], note: Note | None = None) -> Any:
        if tracers:
            return kernel(*args, **kwargs)
        told = len(args) == operands and not kwargs
        parts: list[Any] = [default_dtype()]
        sources: list[torch.Tensor] = []
        blocks: list[Any] = []
        places: list[int] = []
        floats: list[float] = []
        try:
            take(args, told, parts, sources, blocks, places, floats)
            if kwargs:
                parts += kwargs
                take(tuple(kwargs.values()), told, parts, sources, blocks, places, floats)
            if not sources:
                parts.append(devices.current)
            elif len(sources) > 1:
                _share(parts, blocks, places)
            key: Any = tuple(parts)
            recipe = recipes.get(key, UNKNOWN)
            by_value = recipe is BY_VALUE
            if by_value:
                key = (key, *map(cache_key, floats))
                recipe = recipes.get(key, UNKNOWN)
                told = False
        except (AttributeError, TypeError, IndexError):  # what only the long way knows
            return kernel(*args, **kwargs)
        if recipe is UNKNOWN or recipe is ONCE_MORE:
            taken = Arguments(told, sources, blocks, places, floats)
            return _learn(kernel, known, key, taken, args, kwargs, note, by_value)
        if note is not None:
            note(recipe, by_value)
        if recipe is None:
            return kernel(*args, **kwargs)
        if not sources and not recipe.engine.usable:  # another executor is opened where one was closed
            recipes.pop(key, None)
            retired[:] = [*entries.values()]
            entries.clear()
            return kernel(*args, **kwargs)
        if not told:
            floats = []
        elif floats and not _within(recipe, floats):
            return kernel(*args, **kwargs)
        try:
            results = follow(recipe, sources, places, floats)
        except HologramError as error:
            raise kernel.refusal(error) from error
        return kernel(*args, **kwargs) if results is REFUSED else results

    if not compiled:
        return call

    def learn(key: Any, exact: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """Goes the short way here, and keeps its recipe, by the key with the floats where they are part of it."""

        def note(recipe: Recipe | None, by_value: bool) -> None:
            told = not by_value and not kwargs and len(args) == operands
            if by_value:
                entries.keep(key, BY_VALUE)
            asks = partial(_flagged, recipe) if recipe is not None and recipe.flags else None
            entries.keep(exact if by_value else key, entry(recipe, told, asks))

        return run(args, kwargs or {}, note)

    def refuse(error: Exception) -> None:
        raise kernel.refusal(error) if isinstance(error, HologramError) else error

    return swift(operands, entries, kernel, call, learn, refuse)


def follow(recipe: Recipe, sources: Sequence[torch.Tensor], places: list[Any], floats: list[float]) -> Any:
    """Launches what was learnt, on tensors at places; REFUSED where an argument turns out malformed."""
    engine = recipe.engine
    if not engine.usable:
        engine.check_open()
    arguments = places
    made: list[Buffer] = []
    for kind in recipe.kinds:
        block = engine.block(kind)
        arguments.append(block.place)
        made.append(Buffer(engine, block, kind))
    arguments += floats
    arguments += recipe.numbers
    structure = recipe.structure
    if structure is not None and (not recordings or launching(structure, arguments)):
        structure.launch(arguments)
    if recipe.flags and _flagged(recipe, made):
        return REFUSED
    only = recipe.only
    if only is not None:  # most calls
        return fresh(made[0], only, recipe.index)
    results: list[Any] = []
    for result in recipe.results:
        if type(result) is Made:
            buffer, layout = made[result.number], result.layout
            whole = result.whole
            results.append(
                fresh(buffer, layout, recipe.index)
                if whole
                else torch_tensor(Tensor(buffer, layout), exact=True)
            )
        else:
            results.append(sources[result.number] if type(result) is Same else result)
    return results[0] if recipe.form is None else recipe.form(results)


def _flagged(recipe: Recipe, made: Sequence[Buffer]) -> bool:
    """Whether a flag is set, where that can be told without waiting; elsewhere it is read later."""
    resident = recipe.engine.limits.host_resident
    for number, complaint in recipe.flags:
        flag = made[number]
        if resident or recordings:
            if ask(flag, complaint):
                return True
        else:
            unread.leave(Tensor(flag, flag.kind.layout).reshape(1), (complaint,))
    return False


def _learn(
    kernel: Kernel | Plain,
    known: Known,
    key: Any,
    taken: Arguments,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    note: Note | None,
    by_value: bool,
) -> Any:
    """Goes by a template, or the long way, and keeps what that did where another call can do the same."""
    if recordings and get_ident() in recordings:  # part of a call that is recorded
        return kernel(*args, **kwargs)
    call = class_of(kernel, taken, args, kwargs)
    if call is None:
        learnt, results, _ = _recorded(kernel, taken, args, kwargs)
        known.keep(key, learnt, note, by_value)
        return results
    name = tuple(call.key)
    variants = known.templates.get(name)
    if variants is BY_VALUE:
        known.recipes.keep(key, BY_VALUE)
        key = (key, *map(cache_key, taken.floats))
        return _learn(kernel, known, key, replace(taken, told=False), args, kwargs, note, True)
    if variants is None:
        learnt, results, _ = _recorded(kernel, taken, args, kwargs)
        known.keep(key, learnt, note, by_value)
        known.templates.keep(name, BY_VALUE if learnt is BY_VALUE else Variants())
        return results
    fit = variants.fitting(tuple(call.sizes))
    if fit is not None and fit[0].trusted:
        recipe, floats = fit[1], taken.floats if taken.told else []
        if (not floats or _within(recipe, floats)) and _promised(call.kernel, recipe, args, kwargs):
            known.keep(key, recipe, note, by_value)
            results = follow(recipe, taken.sources, taken.places, floats)
            return kernel(*args, **kwargs) if results is REFUSED else results
    learnt, results, expected = _recorded(kernel, taken, args, kwargs)
    known.keep(key, learnt, note, by_value)
    if type(learnt) is Recipe and fit is not None:
        variants.compare(fit[0], agrees(fit[1], learnt, taken.places))
    elif type(learnt) is Recipe:
        variants.unfit(partial(traced, call, taken, args, kwargs, expected))
    return results


def _promised(kernel: Kernel, recipe: Recipe, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether PyTorch expects the results of a recipe that nobody learnt; raises what PyTorch raises."""
    if kernel.by_class:
        return True
    wanted = [x for x in kernel.promised(args, kwargs).results if x is not None]
    made = [x.layout for x in recipe.results if type(x) is Made]
    if not made or not wanted:
        return True
    pairs = zip(made, wanted, strict=False)
    return len(made) == len(wanted) and all(a.shape == b.shape and a.strides == b.strides for a, b in pairs)


def _recorded(
    kernel: Kernel | Plain, taken: Arguments, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Any, Any, Expected]:
    """Goes the long way: a recipe for others (see learnt.recipe_of), results, and what was expected of them."""
    recording = Recording()
    shapes = [(x.shape, x.stride()) for x in taken.sources]
    try:
        recording.begin()
        results, expected = kernel.run(args, dict(kwargs))
    finally:
        recording.end()
    if recording.void:
        return ONCE_MORE, results, expected
    same = [x.untyped_storage().payload.block for x in taken.sources]  # pyright: ignore[reportAttributeAccessIssue]
    if same != taken.blocks or shapes != [(x.shape, x.stride()) for x in taken.sources]:  # one was resized
        return None, results, expected
    return recipe_of(recording, taken, results, expected.dtype), results, expected


def _within(recipe: Recipe, floats: Sequence[float]) -> bool:
    low, high = recipe.bounds
    return all(low <= x <= high for x in floats)
