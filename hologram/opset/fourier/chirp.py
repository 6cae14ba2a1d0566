"""Discrete Fourier transforms of any length, as a convolution with a chirp (Bluestein, A linear filtering approach to
the computation of the discrete Fourier transform, 1970), of a length that passes can do.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from hologram.atlas.builder import Builder
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes
from hologram.foundation.dtypes import COMPLEX, DType
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.axes import normalize_axis
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Step, Target
from hologram.opset.complex_numbers import conj
from hologram.opset.forms.operation import (
    OPERATIONS,
    Attributes,
    Inputs,
    Layouts,
    Operation,
    Sample,
    declared,
)
from hologram.opset.forms.samples import array
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.fourier.passes import roots as unity
from hologram.opset.fourier.passes import scaled, transform

_ODD = (1, 3, 5, 7, 9, 15)  # factors of a convolution's length beside powers of two


@lru_cache(maxsize=1024)
def smooth(least: int) -> int:
    """A length of few elements more that passes are quick at."""
    return min(odd << max(0, (-(-least // odd) - 1).bit_length()) for odd in _ODD)


def padded(n: int) -> int:
    """The length of a convolution that n elements do not go around in."""
    return smooth(2 * n - 1)


def chirp_of(n: int, inverse: bool, dtype: DType) -> np.ndarray:
    """exp(-pi i k^2 / n), or conjugates."""
    k = np.arange(n, dtype=np.int64)
    chirp = unity(2 * n, dtypes.dtype("c128"))[k * k % (2 * n)]
    return (chirp.conj() if inverse else chirp).astype(dtype.numpy)


def spectrum_of(n: int, inverse: bool, dtype: DType) -> np.ndarray:
    """The transform of what elements are convolved with, by its length."""
    size, chirp = padded(n), chirp_of(n, inverse, dtypes.dtype("c128")).conj()
    around = np.zeros(size, np.complex128)
    around[:n] = chirp
    around[size - n + 1 :] = chirp[:0:-1]
    return (np.fft.fft(around) / size).astype(dtype.numpy)


@lru_cache(maxsize=64)
def _times(dtype: DType) -> Program:
    """The first elements of rows times one row of numbers and a scale."""
    b = Builder(f"atlas_chirp_{dtype}", rank=2)
    x, factors = b.buffer("x", dtype, Access.READ), b.buffer("factors", dtype, Access.READ)
    out = b.buffer("out", dtype, Access.WRITE)
    given, made = b.scalar("given", dtypes.index), b.scalar("made", dtypes.index)
    row, k = b.coordinate(0), b.coordinate(1)
    z = scaled(b.load(x, row * given + k) * b.load(factors, k), b.scalar("scale", dtype.part))
    b.store(out, row * made + k, z)
    return b.build()


@lru_cache(maxsize=64)
def _nothing(dtype: DType) -> Program:
    """Zeros behind the first elements of rows."""
    b = Builder(f"atlas_chirp_behind_{dtype}", rank=2)
    out = b.buffer("out", dtype, Access.WRITE)
    first, size = b.scalar("first", dtypes.index), b.scalar("size", dtypes.index)
    b.store(out, b.coordinate(0) * size + first + b.coordinate(1), b.constant(0.0, dtype))
    return b.build()


@frozen(eq=False, repr=False)
class Chirped(Operation):
    """A convolution by two transforms, in one plan."""

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        x, chirp, spectrum, table = inputs
        layouts = [y for y in (x, chirp, spectrum, table) if isinstance(y, Layout)]
        if len(layouts) < 4 or not layouts[0].ndim:
            raise ShapeError(f"{self.name}: a tensor with an axis, and its tables, are needed")
        if not layouts[0].dtype.is_complex or len({y.dtype for y in layouts}) > 1:
            raise UnsupportedDType(
                f"{self.name}: complex numbers are needed, got {[y.dtype for y in layouts]}"
            )
        x, *tables = layouts
        n = x.shape[normalize_axis(attributes["axis"], x.ndim, self.name)]
        if [t.shape for t in tables] != [(n,), (padded(n),), (padded(n),)]:
            raise ShapeError(
                f"{self.name}: tables for {n} elements are needed, got {[t.shape for t in tables]}"
            )
        return (Layout.contiguous(x.dtype, x.shape),)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        if not outputs[0].size:
            return Plan(())
        steps, axis = Steps(5), attributes["axis"]
        x, chirp, spectrum, table = (Place(k, y) for k, y in enumerate(inputs) if isinstance(y, Layout))
        chirp, spectrum = steps.gathered(chirp), steps.gathered(spectrum)
        now, end = steps.gathered(Place(0, x.layout.transpose(axis, -1))), outputs[0].transpose(axis, -1)
        (n,), (size,) = chirp.layout.shape, spectrum.layout.shape
        rows, dtype = x.layout.size // n, x.layout.dtype
        long, there, back = (steps.place(dtype, (rows, size)) for _ in range(3))
        how = {"axis": -1, "scale": 1.0}

        def times(given: Place, factors: Place, made: Place, count: int, scale: float = 1.0) -> None:
            sizes = given.layout.shape[-1], made.layout.shape[-1]
            step = Step(_times(dtype), (0, 1, 2), (*sizes, scale), (rows, count))
            steps.add(step, (given.position, factors.position, made.position))

        def transformed(given: Place, made: Place, inverse: bool) -> None:
            plan = transform.plan(
                (given.layout, table.layout), (made.layout,), {**how, "inverse": inverse}, target
            )
            steps.extend(plan, (given.position, table.position, made.position))

        times(now, chirp, long, n)
        steps.add(Step(_nothing(dtype), (0,), (n, size), (rows, size - n)), (long.position,))
        transformed(long, there, False)
        times(there, spectrum, long, size)
        transformed(long, back, True)
        straight = end.is_contiguous and not end.offset
        made = Place(4, end) if straight else steps.place(dtype, end.shape)
        times(back, chirp, made, n, attributes["scale"])
        if not straight:
            steps.copy(made, Place(4, end))
        return steps.plan()


def tables_of(n: int, inverse: bool, dtype: DType) -> tuple[np.ndarray, ...]:
    """The operands beside x."""
    return chirp_of(n, inverse, dtype), spectrum_of(n, inverse, dtype), unity(padded(n), dtype)


def _samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, axis in (((17,), 0), ((3, 19), 1), ((17, 4), 0), ((0, 23), 1), ((101,), -1)):
        for inverse in (False, True):
            x = array(rng, dtype, shape, -2, 2)
            tables = tables_of(shape[axis], inverse, dtype)
            yield Sample((x, *tables), {"axis": axis, "scale": 0.5})


def _reference(
    x: np.ndarray, chirp: np.ndarray, spectrum: Any, roots: Any, axis: int, scale: float
) -> np.ndarray:
    inverse = chirp[1].imag > 0
    made = np.fft.ifft(x, axis=axis) * x.shape[axis] if inverse else np.fft.fft(x, axis=axis)
    return made * scale


def _back(cotangent: Any, chirp: Any, spectrum: Any, roots: Any, axis: Any, scale: Any) -> Any:
    made = OPERATIONS["chirp_transform"](conj(cotangent), chirp, spectrum, roots, axis=axis, scale=scale)
    return conj(made)


@declared(Chirped, dtypes=COMPLEX, reference=_reference, samples=_samples, methods=False, absolute=512.0,
          gradient={"x": _back, ("chirp", "spectrum", "roots"): None})  # fmt: skip
def chirp_transform(x, chirp, spectrum, roots, *, axis=-1, scale=1.0):
    """The transform along an axis of any length n, times `scale`; see hg.fft.

    `chirp` is exp(-pi i k^2 / n), or for the inverse its conjugate, `spectrum` the transform of what it is convolved
    with, of a longer length, whose roots of unity are `roots`.
    """
