"""Positions held by tensors: whether they are in range, which is asked in one place, and those that a mask names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hologram as hg
from hologram.frontend.indexing import flat_nonzero
from hologram.frontend.tensor import Tensor
from hologram.runtime.dispatch import deferred
from hologram.runtime.launches.recording import ask
from hologram_torch.watch import Complaint, complain


def check(
    name: str, index: Tensor, extent: int, from_the_end: bool = False, kind: type[Exception] = IndexError
) -> None:
    """Raises where a position lies outside an axis, for which the device is waited for.

    In a function that is compiled nobody waits: positions out of range read zeros and write nothing, and a flag is
    left; see watch.py.
    """
    if not index.size:
        return
    low = -extent if from_the_end else 0
    if extent > index.dtype.highest:
        if low < 0 or not index.dtype.is_signed:
            return
        extent = index.dtype.highest
    beyond = f"is out of bounds for an axis of size {extent}"

    def words() -> str:
        least = hg.min(index).item()
        return f"index {least if least < low else hg.max(index).item()} {beyond}"

    if index.size == 1 and deferred():  # so that it fuses with what is made of the position
        only = index.reshape(())
        outside = hg.logical_or(hg.less(only, low), hg.greater_equal(only, extent))
    else:
        outside = hg.any_outside(index, low=low, high=extent)
    refuse(name, outside, words, kind, f"an index {beyond}")


def refuse(
    name: str,
    wrong: Tensor,
    words: str | Callable[[], str],
    kind: type[Exception] = RuntimeError,
    later: str = "an argument is out of range",
) -> None:
    """Raises where a flag is set, for which the device is waited for, but not in a function that is compiled.

    `later` is said in place of words that would have to be read on the device, where nobody waits for it.
    """
    complaint = Complaint(kind, f"hologram, {name}: {words if isinstance(words, str) else later}")
    if deferred():
        complain(wrong, complaint)
    elif ask(wrong.buffer, complaint) if wrong.layout is wrong.buffer.kind.layout else wrong.item():
        raise kind(f"hologram, {name}: {words if isinstance(words, str) else words()}")


def named(name: str, mask: Tensor) -> Tensor:
    """The flat positions of what a mask names, in a row."""
    if deferred():
        raise RuntimeError(
            f"hologram, {name}: how many elements a mask names is not known while a function is compiled"
        )
    return flat_nonzero(mask)


def from_the_front(index: Tensor, extent: int) -> Tensor:
    """Positions that are counted from the end where they are negative, counted from the front."""
    if not index.dtype.is_signed:
        return index
    return hg.where(hg.less(index, 0), index + extent, index)


def along(index: Tensor, shape: tuple[int, ...], axis: int) -> Tensor:
    """A row of positions along an axis as positions for every element of that shape."""
    across = tuple(index.size if k == axis else 1 for k in range(len(shape)))
    return index.reshape(across).expand(tuple(index.size if k == axis else n for k, n in enumerate(shape)))


def at_least_1d(x: Any) -> Any:
    """A tensor without axes with one of size 1."""
    return x.reshape(1) if isinstance(x, Tensor) and not x.ndim else x
