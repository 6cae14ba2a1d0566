"""Positions and grids of them, orders by several keys, and elements by where they are: NumPy's functions of those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.sizes import fixed_range
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.default import executor_of
from hologram.frontend.indexing import flat_nonzero
from hologram.frontend.numpy_names.operands import beside, written
from hologram.frontend.tensor import Tensor
from hologram.machine.arguments import memory_order, sequence, without_fields
from hologram.machine.axes import broadcast, count, integers, normalize_axis, whole
from hologram.opset import creation, indexing, logic, math, movement, sort


def fromfunction(
    function: Callable[..., Any],
    shape: Sequence[int],
    *,
    dtype: Any = "f32",
    device: Any = None,
    **kwargs: Any,
) -> Any:
    """What a function of a grid's coordinates gives: it is called once, with a tensor for each axis."""
    return function(*indices(shape, dtype, device=device), **kwargs)


def indices(dimensions: Sequence[int], dtype: Any = int, sparse: bool = False, *, device: Any = None) -> Any:
    """The coordinates of a grid: one tensor (n, ...) of all n axes, or, with `sparse`, a tuple that broadcasts."""
    shape = integers(sequence(dimensions, "indices: dimensions"), "indices: a size")
    kind = dtypes.dtype(dtype)
    made = [
        creation.arange(executor_of(device), n, dtype=kind.name).reshape(
            [-1 if a == k else 1 for a in fixed_range(len(shape))]
        )
        for k, n in enumerate(shape)
    ]
    if sparse:
        return tuple(made)
    if not made:
        return executor_of(device).empty((0,), kind)
    return movement.stack([x.expand(shape) for x in made], axis=0)


def _triangle(mask: np.ndarray, device: Any) -> tuple[Tensor, ...]:
    executor = executor_of(device)
    return tuple(executor.tensor(places) for places in np.nonzero(mask))


def _below(who: str, n: Any, m: Any, k: Any) -> np.ndarray:
    """Which elements of an (n, m) matrix lie on or below diagonal k."""
    rows = count(n, f"{who}: n")
    return np.tri(rows, rows if m is None else count(m, f"{who}: m"), k=whole(k, f"{who}: k"), dtype=bool)


def tril_indices(n: int, k: int = 0, m: int | None = None, *, device: Any = None) -> tuple[Tensor, ...]:
    """The rows and columns (i64) of an (n, m) matrix on and below its diagonal k."""
    return _triangle(_below("tril_indices", n, m, k), device)


def triu_indices(n: int, k: int = 0, m: int | None = None, *, device: Any = None) -> tuple[Tensor, ...]:
    """The rows and columns (i64) of an (n, m) matrix on and above its diagonal k."""
    return _triangle(~_below("triu_indices", n, m, whole(k, "triu_indices: k") - 1), device)


def diag_indices(n: int, ndim: int = 2, *, device: Any = None) -> tuple[Tensor, ...]:
    """The coordinates (i64) of the diagonal of an array of n elements along each axis."""
    return (creation.arange(executor_of(device), n, dtype=dtypes.i64.name),) * ndim


def ix_(*args: Any) -> tuple[Tensor, ...]:
    """Vectors of positions, or of bools, shaped so that together they index a grid."""
    made = []
    for k, x in enumerate(beside(*args)):
        if x.ndim != 1:
            raise ShapeError(f"ix_: vectors are needed, got shape {x.shape}")
        x = flat_nonzero(x) if x.dtype.kind == "bool" else x
        made.append(x.reshape([-1 if a == k else 1 for a in fixed_range(len(args))]))
    return tuple(made)


def unravel_index(indices: Any, shape: Sequence[int], order: str | None = "C") -> tuple[Tensor, ...]:
    """Coordinates (i64) of positions that are counted flat, row by row ("C") or by columns ("F")."""
    sizes = integers(sequence(shape, "unravel_index: shape"), "unravel_index: a size")
    if memory_order(order, "unravel_index", "CF") == "F":
        return unravel_index(indices, sizes[::-1])[::-1]
    left = _whole(asarray(indices), "unravel_index: positions").astype(dtypes.i64)
    places = []
    for size in reversed(sizes):
        places.append(left % size)
        left = left // size
    return tuple(reversed(places))


def _whole(x: Tensor, who: str) -> Tensor:
    if x.dtype.kind not in ("int", "uint", "bool"):
        raise UnsupportedDType(f"{who} must be integers or bools, got {x.dtype}")
    return x


def _within(who: str, x: Tensor, size: int, mode: str) -> Tensor:
    """Positions from 0 to size - 1: others go around (`wrap`), to the nearest end (`clip`), or stay (`raise`).

    No device raises: it would have to be waited for.
    """
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"{who}: mode must be 'raise', 'wrap' or 'clip', got {mode!r}")
    if mode == "wrap":
        return x % size
    return math.clip(x, 0, size - 1) if mode == "clip" else x


def ravel_multi_index(
    multi_index: Any, dims: Sequence[int], mode: Any = "raise", order: str | None = "C"
) -> Tensor:
    """Positions (i64), counted flat, of coordinates: a sequence or a tensor of one for each axis.

    They are counted row by row ("C") or by columns ("F").

    `mode`, of all axes or of each, says what coordinates out of range are: "wrap", "clip", or nothing ("raise"), and
    then they are not looked at.
    """
    sizes = integers(sequence(dims, "ravel_multi_index: dims"), "ravel_multi_index: a size")
    modes = (mode,) * len(sizes) if isinstance(mode, str) else sequence(mode, "ravel_multi_index: mode")
    multi_index = sequence(multi_index, "ravel_multi_index: multi_index")
    if not len(sizes) == len(modes) == len(multi_index):
        raise ShapeError(
            f"ravel_multi_index: coordinates and a mode for each of {len(sizes)} axes are needed, got "
            f"{len(multi_index)} and {len(modes)}"
        )
    if memory_order(order, "ravel_multi_index", "CF") == "F":
        sizes, modes, multi_index = sizes[::-1], modes[::-1], multi_index[::-1]
    place: Any = 0
    for size, coordinate, each in zip(sizes, multi_index, modes, strict=True):
        at = _whole(asarray(coordinate), "ravel_multi_index: coordinates").astype(dtypes.i64)
        place = place * size + _within("ravel_multi_index", at, size, each)
    return place


def lexsort(keys: Any, axis: int = -1) -> Tensor:
    """The order (i64) along an axis by the last key, among equal ones by the key before it, and so on."""
    rows = list(beside(*keys)) if isinstance(keys, (tuple, list)) else list(asarray(keys))
    if not rows:
        raise TypeError("lexsort: at least one key is needed")
    k = normalize_axis(axis, rows[0].ndim, "lexsort")
    order = sort.argsort(rows[0], axis=k)
    for key in rows[1:]:
        order = indexing.gather(order, sort.argsort(indexing.gather(key, order, dim=k), axis=k), dim=k)
    return order


def partition(
    a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None
) -> Tensor:
    """The elements so that the kth is where it is in order, no larger ones before it: all are put in order."""
    x, k = _parted("partition", a, kth, axis, kind, order)
    return sort.sort(x, axis=k)


def argpartition(
    a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None
) -> Tensor:
    """The positions (i64) that partition puts elements at."""
    x, k = _parted("argpartition", a, kth, axis, kind, order)
    return sort.argsort(x, axis=k)


def _parted(who: str, a: Any, kth: Any, axis: int | None, kind: str, order: Any) -> tuple[Tensor, int]:
    """What is put in order, and along which axis; raises ValueError for a kth element that is not there."""
    if kind != "introselect":
        raise ValueError(f"{who}: kind must be 'introselect', got {kind!r}")
    without_fields(who, order)
    x = asarray(a)
    x = x.reshape(x.size) if axis is None else x
    k = normalize_axis(-1 if axis is None else axis, x.ndim, who)
    n = x.shape[k]
    for place in integers(kth, f"{who}: kth"):
        if n and not -n <= place < n:
            raise ValueError(f"{who}: kth must be within {n} elements, got {place}")
    return x, k


def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Tensor:
    """The slices along an axis, or the elements of the flat array, where a vector of bools says so; waits."""
    x, chosen = beside(a, condition)
    if chosen.ndim != 1:
        raise ShapeError(f"compress: a vector of bools is needed, got shape {chosen.shape}")
    flat, along = (x.reshape(x.size), 0) if axis is None else (x, normalize_axis(axis, x.ndim, "compress"))
    size = flat.shape[along]
    if chosen.shape[0] > size and bool(chosen[size:].any()):
        raise IndexError(f"compress: one of {chosen.shape[0]} bools picks what is behind the {size} elements")
    found = indexing.index_select(flat, flat_nonzero(chosen[:size]), axis=along)
    return written(found, out, "compress")


def extract(condition: Any, arr: Any) -> Tensor:
    """The elements where a condition of as many elements holds, flat; waits."""
    x = asarray(arr)
    return indexing.index_select(x.reshape(x.size), flat_nonzero(asarray(condition)))


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """From the first choice whose condition holds, else the default."""
    condlist, choicelist = sequence(condlist, "select: condlist"), sequence(choicelist, "select: choicelist")
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError(
            f"select: as many choices as conditions are needed, got {len(choicelist)} and {len(condlist)}"
        )
    found: Any = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        found = logic.where(asarray(condition), choice, found)
    return found


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Tensor:
    """From the choice whose number stands at the place; numbers outside are those of the nearest end.

    With the mode "wrap" they go around. "raise", as which NumPy refuses them, is "clip" here: nobody waits to look.
    """
    a = np.asarray(a) if type(a) is int else a  # a number, which would take the dtype of the choices
    at, *parts = beside(a, *sequence(choices, "choose: choices"))
    if not parts:
        raise ValueError("choose: at least one choice is needed")
    at = _within("choose", _whole(at, "choose: numbers of choices"), len(parts), mode)
    found = parts[-1]
    for k in reversed(fixed_range(len(parts) - 1)):
        found = logic.where(logic.less_equal(at, k), parts[k], found)
    shape = broadcast([at.shape, *(part.shape for part in parts)], "choose")
    return written(found.expand(shape), out, "choose")


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Tensor:
    """Of each element what the function, or number, of the last condition that holds gives; else the one more, or 0.

    Functions see all of x, where NumPy's see the elements that they are for.
    """
    made = asarray(x)
    several = isinstance(condlist, (list, tuple)) or getattr(condlist, "ndim", 0) > made.ndim
    conditions = beside(made, *(condlist if several else [condlist]))[1:]
    count = len(conditions)
    funclist = sequence(funclist, "piecewise: funclist")
    if len(funclist) not in (count, count + 1):
        raise ValueError(
            f"piecewise: a function for each of {count} conditions, or one more, is needed, got {len(funclist)}"
        )
    *_, found = [0, *funclist[count:]]
    values = [f(made, *args, **kw) if callable(f) else f for f in (found, *funclist[:count])]
    result: Any = values[0]
    for condition, value in zip(conditions, values[1:], strict=True):
        result = logic.where(condition, value, result)
    return asarray(result).astype(made.dtype, copy=False)


def put_along_axis(arr: Tensor, indices: Any, values: Any, axis: int | None) -> None:
    """Writes values into a tensor, at positions along an axis."""
    if not isinstance(arr, Tensor):
        raise TypeError(f"put_along_axis: a Tensor is needed to write into, got {type(arr).__name__}")
    places = beside(arr, indices)[1]
    k = 0 if axis is None else normalize_axis(axis, arr.ndim, "put_along_axis")
    flat = arr.reshape(arr.size) if axis is None else arr
    grid = [
        creation.arange(arr.executor, n).reshape([-1 if a == b else 1 for b in fixed_range(flat.ndim)])
        for a, n in enumerate(flat.shape)
    ]
    grid[k] = places
    arr[unravel_index(places, arr.shape) if axis is None else tuple(grid)] = values
