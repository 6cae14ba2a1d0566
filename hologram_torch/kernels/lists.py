"""Lists of tensors that a function overwrites, or makes others from: all of them in as few launches as they fuse into.

Floats among the arguments are numbers of each call: another learning rate compiles nothing anew.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.graph import increment_version
from torch.utils import _pytree as pytree

import hologram as hg
from hologram.foundation.bounded_caches import FIFOCache
from hologram.foundation.errors import HologramError
from hologram.foundation.frozen import frozen
from hologram.frontend.jit.compiled import Compiled
from hologram.frontend.tensor import Tensor
from hologram.runtime.dispatch import Dispatch, deferred
from hologram.runtime.memory.allocation import BufferSpec
from hologram.runtime.memory.buffer import Buffer
from hologram_torch.kernels.errors import refusal
from hologram_torch.kernels.results import write
from hologram_torch.reach import reach
from hologram_torch.tensors.memory import hologram_tensor, spans

Lists = list[list[Tensor]]
PLAIN = (torch.Tensor, torch.nn.Parameter)
MAX_KNOWN = 256  # calls that one function of lists is known for

tracers = Dispatch.tracers
Same = Callable[..., bool]  # whether tensors are alike those of a call


def _guards() -> Callable[..., Same]:
    from torch._C._dynamo.guards import TensorGuards  # pyright: ignore

    return lambda *x: TensorGuards(*x, dynamic_dims_sizes=None, dynamic_dims_strides=None).check


def compared(*tensors: torch.Tensor) -> Same:
    """The same as PyTorch's guards, in Python."""

    def signature(x: torch.Tensor) -> Any:
        return type(x), x.dtype, x.device, x.shape, x.stride(), x.requires_grad

    signatures = [*map(signature, tensors)]
    return lambda *given: [*map(signature, given)] == signatures


_likeness = reach(
    "guards",
    "torch._C._dynamo.guards.TensorGuards",
    "the tensors of an optimiser's step are compared in Python, slower",
    _guards,
    compared,
)


@frozen
class Known:
    """What an update of such tensors runs; `same` tells whether others have the same sizes, strides and dtypes."""

    same: Same
    compiled: Compiled
    asked: tuple[tuple[int, float], ...]  # numbers for whose values alone it was compiled
    kinds: list[BufferSpec]  # of the tensors' buffers


class Updates:
    """Overwrites lists of tensors: `function(written, *others)` gives what they become, in the same structure.

    Kernels write where the tensors lie, if these are all of their memory and nobody else was given it. Steps of an
    optimiser, which overwrite the same memory again and again, are known by the tensors: see `again`.
    """

    def __init__(self, function: Callable[..., Lists]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._fresh = hg.jit(function)
        self._over = hg.jit(function, donate=0)
        self._known: FIFOCache[Any, Known] = FIFOCache(MAX_KNOWN)

    def __call__(self, written: Sequence[Sequence[torch.Tensor]], *others: Any) -> None:
        """Overwrites tensors of the device; in lists and dicts of `others` are more, floats and settings."""
        tensors: list[torch.Tensor] = []
        numbers: list[float] = []
        if not any(written):
            return
        key = (
            _form(written, tensors, numbers),
            _form(others, tensors, numbers),
            len(tensors),
            tensors[0].shape,
        )
        try:
            if not self._again(key, tensors, numbers):
                if not apart(written, others):
                    for k in range(len(written[0])):
                        self(*[_alone(each, k, len(written[0])) for each in (written, *others)])
                    return
                self._run(key, tensors, numbers, _taken(written), _taken(others))
        except HologramError as error:
            raise refusal(self.function.__name__, error) from error
        increment_version([x for each in written for x in each])  # what autograd saved is no more

    def _again(self, key: Any, tensors: Sequence[torch.Tensor], numbers: Sequence[float]) -> bool:
        """Runs what such a call ran before, where the tensors are of the same memory; False if nothing was done."""
        known = self._known.get(key)
        if known is None or tracers or not known.same(*tensors):
            return False
        if any(numbers[k] != value for k, value in known.asked):
            return False
        try:
            buffers: list[Any] = [x.untyped_storage().payload for x in tensors]  # pyright: ignore[reportAttributeAccessIssue]
            # A part of a larger memory has the same sizes and strides as a whole one.
            whole = [buffer.kind for buffer in buffers] == known.kinds
        except AttributeError:  # a storage was freed
            return False
        return whole and known.compiled.over(buffers, numbers)

    def _run(
        self,
        key: Any,
        tensors: Sequence[torch.Tensor],
        numbers: Sequence[float],
        written: Lists,
        others: Sequence[Any],
    ) -> None:
        """The general way; where kernels wrote where the tensors lie, the next such call is known."""
        targets = [x for each in written for x in each]
        if not deferred() and all(map(_is_whole, targets)):
            compiled = self._over.compiled(written, *others)
            if compiled.over([hologram_tensor(x).buffer for x in tensors], numbers):
                self._learn(key, tensors, numbers, compiled)
                return
        results = (self.function if deferred() else self._fresh)(written, *others)
        for target, result in zip(targets, (x for each in results for x in each), strict=True):
            write(result, target)

    def _learn(
        self, key: Any, tensors: Sequence[torch.Tensor], numbers: Sequence[float], compiled: Compiled
    ) -> None:
        # Of a view, sizes and strides say too little.
        given = [hologram_tensor(x) for x in tensors]
        if not all(map(_is_whole, given)):
            return
        same = _likeness(*tensors)
        kinds = [x.buffer.kind for x in given]
        asked = tuple((k, numbers[k]) for k in sorted(compiled.asked))
        self._known.keep(key, Known(same, compiled, asked, kinds))


def apart(written: Sequence[Sequence[torch.Tensor]], others: Sequence[Any]) -> bool:
    """Whether no memory that is written at one place of the lists is met at another; else places come in turn.

    `others` may be tensors, and lists of as many as there are places, or lists of such lists; all else is no matter.
    """
    places = len(written[0])
    if places == 1:
        return True
    met: dict[
        int, list[tuple[torch.Tensor, int, bool]]
    ] = {}  # by storage: a tensor, its place, whether written

    def meet(tree: Any, writes: bool) -> None:
        for k, x in enumerate(tree):
            if isinstance(x, torch.Tensor):
                place = k if len(tree) == places else -1
                met.setdefault(x.untyped_storage()._cdata, []).append((x, place, writes))
            elif isinstance(x, list):
                meet(x, writes)

    meet(written, True)
    meet(others, False)
    shared = (parts for parts in met.values() if len(parts) > 1)  # of an optimiser's lists none
    return not any(
        _entangled(sorted((*_range(x), place, writes) for x, place, writes in parts)) for parts in shared
    )


def _range(x: torch.Tensor) -> tuple[int, int]:
    """Where a tensor begins and ends in its storage, in bytes."""
    begin = int(x.storage_offset()) * x.element_size()
    span = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True)) + 1
    return begin, begin + int(span) * x.element_size() if x.numel() else begin


def _entangled(parts: Sequence[tuple[int, int, int, bool]]) -> bool:
    """Of parts of a storage in order, whether two of different places, or two written ones, overlap, one written."""
    open_parts: list[tuple[int, int, int, bool]] = []
    for part in parts:
        begin, _, place, writes = part
        open_parts = [p for p in open_parts if p[1] > begin]
        if any((writes or p[3]) and (p[2] != place or (writes and p[3])) for p in open_parts):
            return True
        open_parts.append(part)
    return False


def _alone(tree: Any, k: int, places: int) -> Any:
    """Of lists, and lists of lists, with something for each place, what is for one."""
    if not isinstance(tree, (list, tuple)):
        return tree
    if any(isinstance(x, (list, tuple)) for x in tree):
        return [_alone(each, k, places) for each in tree]
    return [tree[k]] if len(tree) == places else tree


def _form(tree: Any, tensors: list[torch.Tensor], numbers: list[float]) -> Any:
    """What is neither tensor nor number in a tree, and where these are; both are appended in the order of a trace's."""
    if isinstance(tree, torch.Tensor):
        tensors.append(tree)
        return torch.Tensor
    kind = type(tree)
    if kind is float or kind is int:
        numbers.append(tree)
        return kind
    if kind is list and tree and isinstance(tree[0], torch.Tensor):  # and so are the others
        tensors += tree
        return len(tree)
    if kind is list or kind is tuple:
        return (kind, *[_form(each, tensors, numbers) for each in tree])
    if kind is dict:
        return (kind, *[(name, _form(tree[name], tensors, numbers)) for name in sorted(tree)])
    return kind, tree


def _taken(tree: Any) -> Any:
    """A tree with hologram's tensors for PyTorch's."""
    return pytree.tree_map_only(torch.Tensor, hologram_tensor, tree)


def updates(function: Callable[..., Lists]) -> Updates:
    """Compiles what overwrites lists."""
    return Updates(function)


def _is_whole(x: Tensor) -> bool:
    """Whether it is all of its memory, row by row, in whatever shape: the gradient of a bias was a row."""
    layout = x.layout
    return type(x.buffer) is Buffer and layout.is_contiguous and spans(layout, x.buffer.kind.layout)


def wide(x: Tensor) -> Tensor:
    """In the dtype that sums of its dtype are computed in."""
    return x.astype(x.dtype.computed, copy=False)


def alike(lists: Sequence[Sequence[torch.Tensor]]) -> bool:
    """Whether lists have as many tensors of the device, of the same shapes and float dtypes; the first has some.

    Distributed tensors and other subclasses have their own ways.
    """
    first = lists[0]
    if any(type(x) not in PLAIN for each in lists for x in each):
        return False
    places = {x.device for each in lists for x in each}
    if len(places) != 1 or places.pop().type != "hologram" or not first:
        return False
    shapes, types_of = [x.shape for x in first], [x.dtype for x in first]
    if not all(dtype.is_floating_point for dtype in set(types_of)):
        return False
    return all([x.shape for x in each] == shapes and [x.dtype for x in each] == types_of for each in lists)


def numbers(values: Sequence[Any]) -> list[float] | None:
    """Numbers as floats of a call; None unless all are real."""
    floats = [float(v) for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    return floats if len(floats) == len(values) else None


def is_device_scalar(x: Any) -> bool:
    """Whether it is a float tensor of the device without axes."""
    return (
        isinstance(x, torch.Tensor) and x.device.type == "hologram" and not x.ndim and x.is_floating_point()
    )
