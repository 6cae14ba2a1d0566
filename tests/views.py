"""Arrays as tensors that are views of larger memory: everything else in it is poison, which no result may show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import hologram as hg
from hologram.foundation import dtypes


def poison(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """NaN, or of integers a number that is no position in anything small, and below others where it can be."""
    number = {"b": True, "i": -101, "u": 101, "c": complex(np.nan, np.nan)}.get(dtype.kind, np.nan)
    return np.full(shape, number, dtype)


def offset(executor: hg.Executor, x: np.ndarray) -> hg.Tensor:
    """Contiguous, and neither the first nor the last in its memory."""
    around = poison(x.shape, x.dtype)
    return executor.tensor(np.stack([around, x, around]))[1]


def stepped(executor: hg.Executor, x: np.ndarray) -> hg.Tensor:
    """Every second element along each axis, from the second on."""
    wide = poison(tuple(2 * n + 1 for n in x.shape), x.dtype)
    inner = (slice(1, None, 2),) * x.ndim
    wide[inner] = x
    return executor.tensor(wide)[inner]


def reversed_(executor: hg.Executor, x: np.ndarray) -> hg.Tensor:
    """Backwards along each axis."""
    inner = (slice(None, None, -1),) * x.ndim
    return executor.tensor(np.ascontiguousarray(x[inner]))[inner]


def transposed(executor: hg.Executor, x: np.ndarray) -> hg.Tensor:
    """The axes the other way round, in one column of what lies there."""
    wide = np.stack([poison(x.T.shape, x.dtype), x.T], axis=-1)
    return executor.tensor(wide)[..., 1].permute(*reversed(range(x.ndim)))


def first_repeated(executor: hg.Executor, x: np.ndarray) -> hg.Tensor:
    """The first of the array along its first axis, repeated along that."""
    return offset(executor, x[:1]).expand(*x.shape)


def last_repeated(executor: hg.Executor, x: np.ndarray) -> hg.Tensor:
    """The first of the array along its last axis, repeated along that."""
    return stepped(executor, x[..., :1]).expand(*x.shape)


def part(executor: hg.Executor, x: np.ndarray) -> hg.Tensor:
    """Floats as the imaginary parts of complex numbers, complex numbers as pairs of floats, from an offset."""
    kind = dtypes.dtype(x.dtype)
    if kind.is_complex:
        around = poison((*x.shape, 2), kind.part.numpy)
        inside = np.ascontiguousarray(x).view(kind.part.numpy).reshape(*x.shape, 2)
        return hg.view_as_complex(executor.tensor(np.stack([around, inside, around]))[1])
    if not kind.is_float or kind.complex.part is not kind or kind.complex not in executor.limits.dtypes:
        return offset(executor, x)
    whole = np.zeros(x.shape, kind.complex.numpy)
    whole.real, whole.imag = poison(x.shape, x.dtype), x
    return offset(executor, whole).imag


def foreign(executor: hg.Executor, x: np.ndarray) -> hg.Tensor:
    """Every second of the rows of NumPy's memory."""
    wide = np.stack([poison(x.shape, x.dtype), x], axis=1)
    try:
        return executor.from_dlpack(wide[:, 1])
    except (hg.InteropError, BufferError, TypeError):  # the device or NumPy has no such
        return offset(executor, x)


KINDS: dict[str, Callable[[hg.Executor, np.ndarray], hg.Tensor]] = {
    "offset": offset,
    "stepped": stepped,
    "reversed": reversed_,
    "transposed": transposed,
    "first repeated": first_repeated,
    "last repeated": last_repeated,
    "part": part,
    "foreign": foreign,
}
REPEATED = {"first repeated", "last repeated"}  # whose elements share memory, so that nobody writes there


def seen(executor: hg.Executor, x: np.ndarray, kind: str) -> hg.Tensor:
    """An array as a view of a kind; what has no axes is one from an offset."""
    return (KINDS[kind] if x.ndim else offset)(executor, x)


def placed(made: Callable[[np.ndarray], Any], tree: Any) -> Any:
    """A tree of arguments with what is made of its arrays in their place."""
    return _mapped(tree, lambda x: made(x) if isinstance(x, np.ndarray) else x)


def copied(executor: hg.Executor, tree: Any) -> Any:
    """A tree of arguments with tensors of their own, contiguous and all of their memory, for the tensors in it."""
    return _mapped(tree, lambda x: executor.tensor(x.to_numpy()) if isinstance(x, hg.Tensor) else x)


def on_host(tree: Any) -> Any:
    """A tree of results with NumPy's arrays for tensors."""
    return _mapped(tree, lambda x: x.to_numpy() if isinstance(x, hg.Tensor) else x)


def around(x: hg.Tensor) -> np.ndarray:
    """All of the memory that a view lies in, with zeros for the view."""
    whole = hg.Tensor(x.buffer, x.buffer.kind.layout).clone()
    hg.Tensor(whole.buffer, x.layout)[...] = 0
    return whole.to_numpy()


def same(got: Any, want: Any, rtol: float) -> None:
    """Fails unless two trees of results have the same arrays: in bits, or floats within a relative bound."""
    if isinstance(want, dict):
        want, got = list(want.items()), list(got.items())
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w, rtol)
    elif isinstance(want, np.ndarray):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want.dtype.kind in "iub" or got.tobytes() != want.tobytes():
            close = rtol if want.dtype.kind in "fc" else 0
            np.testing.assert_allclose(got, want, rtol=close, atol=close)
    else:
        assert got == want or (got != got and want != want), f"{got}, expected {want}"


def _mapped(tree: Any, leaf: Callable[[Any], Any]) -> Any:
    if isinstance(tree, dict):
        return {name: _mapped(x, leaf) for name, x in tree.items()}
    if isinstance(tree, (list, tuple)):
        found = [_mapped(x, leaf) for x in tree]
        return tuple(found) if isinstance(tree, tuple) else found
    return leaf(tree)
