"""Sums of products over named or numbered axes, as matrix products: tensordot and einsum."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from hologram.foundation.dtypes import COMPLEX, NUMBERS, DType
from hologram.foundation.errors import ShapeError
from hologram.foundation.frozen import frozen
from hologram.foundation.sizes import fixed_range
from hologram.machine.axes import broadcast, normalize_axis, whole
from hologram.opset import math as arithmetic
from hologram.opset import matmul, movement, reduce
from hologram.opset.forms.composite import Composite, composite
from hologram.opset.forms.operation import Sample, declared
from hologram.opset.forms.places import Arguments
from hologram.opset.forms.samples import array, cases
from hologram.opset.forms.types import promoted

_TENSORDOTS = cases(
    ((2, 3, 4), (3, 4, 5), {"axes": 2}), ((3, 4), (4, 3), {"axes": ((0, 1), (1, 0))}), ((3,), (2,), {"axes": 0}),
    ((2, 5), (5, 3), {"axes": ((-1,), (0,))}), ((0, 3), (3, 2), {"axes": 1}), ((3, 0), (0, 2), {"axes": 1}),
    low=-3, high=3,
)  # fmt: skip


@composite(dtypes=NUMBERS + COMPLEX, samples=_TENSORDOTS, ulp=4, absolute=64.0,
           reference=lambda x, y, axes=2: np.tensordot(x, y, axes))  # fmt: skip
def tensordot(x, y, *, axes=2):
    """The sums of products over the last `axes` axes of x and the first of y, or over two sequences of axes."""
    if isinstance(axes, (tuple, list)):
        pair = [[a] if not isinstance(a, (tuple, list)) else list(a) for a in axes]
        if len(pair) != 2 or len(pair[0]) != len(pair[1]):
            raise ShapeError(f"tensordot: two sequences of as many axes are needed, got {axes}")
    else:
        count = whole(axes, "tensordot: axes")
        if not 0 <= count <= min(x.ndim, y.ndim):
            raise ShapeError(f"tensordot: axes must lie in [0, {min(x.ndim, y.ndim)}], got {axes}")
        pair = [list(range(x.ndim - count, x.ndim)), list(range(count))]
    left, right = (
        [normalize_axis(a, t.ndim, "tensordot") for a in p] for t, p in zip((x, y), pair, strict=True)
    )
    if [x.shape[a] for a in left] != [y.shape[a] for a in right]:
        raise ShapeError(f"tensordot: sizes of the axes {pair} must agree, got {x.shape} and {y.shape}")
    free_x = [a for a in range(x.ndim) if a not in left]
    free_y = [a for a in range(y.ndim) if a not in right]
    n = math.prod(x.shape[a] for a in left)
    rows, columns = (tuple(t.shape[a] for a in free) for t, free in ((x, free_x), (y, free_y)))
    a = x.permute(free_x + left).reshape(math.prod(rows), n)
    b = y.permute(right + free_y).reshape(n, math.prod(columns))
    return matmul.matmul(a, b).reshape(rows + columns)


_DOTS = cases(
    ((3,), (3,), {}), ((3, 4), (4, 5), {}), ((2, 3, 4), (4,), {}), ((4,), (2, 4, 3), {}), ((), (3,), {}),
    ((2, 3), (5, 3, 2), {}), ((0, 3), (3, 2), {}), low=-3, high=3,
)  # fmt: skip


@composite(dtypes=NUMBERS + COMPLEX, samples=_DOTS, ulp=4, absolute=64.0, reference=lambda x, y: np.dot(x, y))
def dot(x, y):
    """NumPy's product: sums over the last axis of x and the last but one of y; of numbers their product."""
    if not (x.ndim and y.ndim):
        return arithmetic.multiply(x, y)
    if x.ndim <= 2 and y.ndim <= 2:
        return matmul.matmul(x, y)
    return tensordot(x, y, axes=((x.ndim - 1,), (max(y.ndim - 2, 0),)))


Labels = str  # of the axes of a tensor, a letter each


@frozen
class _Term:
    """A tensor, and the letters of its axes, all different."""

    tensor: Any
    labels: Labels

    def ordered(self, labels: Labels) -> Any:
        """The tensor with its axes in that order; those that it has not are of size 1."""
        tensor = self.tensor.permute([self.labels.index(c) for c in labels if c in self.labels])
        for k, c in enumerate(labels):
            tensor = tensor if c in self.labels else tensor.unsqueeze(k)
        return tensor


def _diagonal(term_labels: Labels, x: Any) -> _Term:
    """The diagonal along axes of one letter, a view."""
    layout, labels = x.layout, term_labels
    for letter, times in Counter(labels).items():
        for _ in fixed_range(times - 1):
            first, second = labels.index(letter), labels.rindex(letter)
            if layout.shape[first] != layout.shape[second]:
                raise ShapeError(
                    f"einsum: axes {letter!r} must have one size, got shape {x.shape} for {term_labels!r}"
                )
            strides = list(layout.strides)
            strides[first] += strides[second]
            layout = replace(layout, strides=tuple(strides)).squeeze(second)
            labels = labels[:second] + labels[second + 1 :]
    return _Term(x._view(layout), labels)


def _summed(term: _Term, kept: set[str]) -> _Term:
    """Without the axes that nothing else has."""
    gone = tuple(k for k, c in enumerate(term.labels) if c not in kept)
    if not gone:
        return term
    total = reduce.sum_(term.tensor, axis=gone, dtype=term.tensor.dtype)
    return _Term(total, "".join(c for c in term.labels if c in kept))


def _contracted(a: _Term, b: _Term, kept: set[str]) -> _Term:
    """The product of two, summed over what is not kept: one matrix product for each element of what both keep."""
    a, b = _summed(a, kept | set(b.labels)), _summed(b, kept | set(a.labels))
    both = [c for c in a.labels if c in b.labels]
    batch, inner = "".join(c for c in both if c in kept), "".join(c for c in both if c not in kept)
    rows = "".join(c for c in a.labels if c not in both)
    columns = "".join(c for c in b.labels if c not in both)
    if not inner:
        labels = batch + rows + columns
        return _Term(arithmetic.multiply(a.ordered(labels), b.ordered(labels)), labels)
    x, y = a.ordered(batch + rows + inner), b.ordered(batch + inner + columns)
    shapes = [
        dict(zip(labels, t.shape, strict=True))
        for labels, t in ((batch + rows + inner, x), (batch + inner + columns, y))
    ]
    sizes = {
        c: max(s[c] for s in shapes if c in s) if 0 not in [s.get(c) for s in shapes] else 0
        for c in shapes[0] | shapes[1]
    }

    def joined(labels: Labels) -> int:
        return math.prod(sizes[c] for c in labels)

    def wide(t: Any, first: Labels, second: Labels) -> Any:
        whole = t.expand([sizes[c] for c in batch + first + second])
        return whole.reshape(joined(batch), joined(first), joined(second))

    product = matmul.matmul(wide(x, rows, inner), wide(y, inner, columns))
    return _Term(product.reshape([sizes[c] for c in batch + rows + columns]), batch + rows + columns)


def _parsed(subscripts: Any, ndims: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The letters of every operand and of the result; an ellipsis has letters of its own."""
    if not isinstance(subscripts, str):
        raise TypeError(f"einsum: subscripts must be a string, got {type(subscripts).__name__}")
    sources, arrow, target = subscripts.replace(" ", "").partition("->")
    given = sources.split(",")
    letters = sources.replace("...", "").replace(",", "") + target.replace("...", "")
    if len(given) != len(ndims) or not all(c.isalpha() for c in letters):
        raise ValueError(
            f"einsum: subscripts must have letters for {len(ndims)} operand(s), got {subscripts!r}"
        )
    spare = [chr(0x100 + k) for k in range(max([0, *ndims]))]  # letters that nobody writes
    inputs, most = [], 0
    for labels, ndim in zip(given, ndims, strict=True):
        free = ndim - len(labels.replace("...", ""))
        if free < 0 or (free and "..." not in labels):
            raise ShapeError(f"einsum: {labels!r} must name every axis, got a tensor of {ndim}")
        inputs.append(labels.replace("...", "".join(spare[len(spare) - free :]), 1))
        most = max(most, free)
    rest = "".join(spare[len(spare) - most :])
    if not arrow:
        counts = Counter("".join(inputs))
        target = rest + "".join(sorted(c for c in counts if counts[c] == 1 and c not in rest))
    target = target.replace("...", rest, 1)
    known = set("".join(inputs))
    if len(set(target)) != len(target) or not set(target) <= known:
        raise ValueError(f"einsum: the result must name axes of the operands once each, got {subscripts!r}")
    return inputs, target


@frozen(eq=False, repr=False)
class Einsum(Composite):
    """Called as NumPy's is: the subscripts, then the operands one by one."""

    __signature__ = inspect.signature(lambda subscripts, *operands: None)

    @cached_property
    def by_place(self) -> int:
        return 0

    def by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        if args and isinstance(args[0], str):
            args, kwargs = (args[1:],), {**kwargs, "subscripts": args[0]}
        return super().by_name(args, kwargs)


def _einsum_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for subscripts, *shapes in (
        ("ij,jk->ik", (3, 4), (4, 5)), ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)), ("ii->i", (4, 4)), ("ii", (4, 4)),
        ("ij->ji", (3, 4)), ("ij->", (3, 4)), ("i,j->ij", (3,), (4,)), ("i,i", (5,), (5,)),
        ("...ij,jk", (2, 3, 4), (4, 5)),
        ("ijk,ilk,kl->jl", (2, 3, 4), (2, 5, 4), (4, 5)), ("ij,ij->ij", (3, 1), (3, 4)), ("ij,jk", (3, 0), (0, 2)),
        ("...i,...i->...", (2, 1, 3), (5, 3)), ("aab,b->a", (3, 3, 2), (2,)), (",i->i", (), (3,)),
    ):  # fmt: skip
        yield Sample((tuple(array(rng, dtype, s, -3, 3) for s in shapes),), {"subscripts": subscripts})


@declared(Einsum, dtypes=NUMBERS + COMPLEX, samples=_einsum_samples, methods=False, ulp=4, absolute=64.0,
          reference=lambda tensors, subscripts: np.einsum(subscripts, *tensors))  # fmt: skip
def einsum(tensors: Sequence[Any], *, subscripts):
    """Einstein's sum: `hg.einsum("ij,jk->ik", a, b)`; operands are contracted from the left, as matrix products."""
    inputs, target = _parsed(subscripts, [t.ndim for t in tensors])
    dtype = promoted([t.dtype for t in tensors])
    terms = [_diagonal(labels, t) for labels, t in zip(inputs, tensors, strict=True)]
    for letter in {c for term in terms for c in term.labels}:
        broadcast([(t.tensor.shape[t.labels.index(letter)],) for t in terms if letter in t.labels], "einsum")
    product, *others = terms
    while others:
        kept = set(target).union(*(t.labels for t in others[1:]))
        product = _contracted(product, others.pop(0), kept)
    result = _summed(product, set(target)).ordered(target)
    return movement.cast(result, dtype=dtype) if result.dtype is not dtype or len(terms) < 2 else result
