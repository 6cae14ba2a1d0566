"""Discrete Fourier transforms of lengths without large factors: one pass over memory for each radix.

Stockham's form, which needs no reordering: with n the length, s the product of the radices done and m what is left of n
after this one, a pass takes r elements m apart, transforms them in registers, turns them by powers of the n-th root of
unity and writes them side by side (Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992, 1.7).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from hologram.atlas import complex_parts
from hologram.atlas.builder import Builder
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes
from hologram.foundation.dtypes import COMPLEX, DType
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.axes import normalize_axis
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Step, Target
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
from hologram.opset.fourier.butterflies import PRIMES, small
from hologram.opset.fourier.turning import scaled, turned
from hologram.opset.fourier.workgroups import Rows, groups, row_program
from hologram.opset.tiles.fourier import own_steps


@lru_cache(maxsize=4096)
def radices(n: int) -> tuple[int, ...] | None:
    """What passes take a length apart into, the largest first; None where it has larger prime factors."""
    found = []
    for prime in PRIMES:
        while n % prime == 0:
            found.append(prime)
            n //= prime
    twos = n.bit_length() - 1
    if n != 1 << twos:
        return None
    eights, left = divmod(twos, 3)
    sixteens = min(left, eights)  # a pass less than 8 x 2 and 8 x 8 x 4
    found += [16] * sixteens + [8] * (eights - sixteens) + [1 << left - sixteens] * (left > sixteens)
    return tuple(sorted(found, reverse=True))


def unity(n: int, k: np.ndarray) -> np.ndarray:
    """Powers of the n-th root of unity, clockwise, of angles that are reduced to an eighth of the circle before."""
    eighths = 8 * (k % n)
    turn = np.round(eighths / (2 * n)).astype(np.int64)  # quarters
    angle = 2 * np.pi * (eighths - 2 * n * turn) / (8 * n)
    return np.exp(-1j * angle) * np.array([1, -1j, -1, 1j])[turn % 4]


def roots(n: int, dtype: DType) -> np.ndarray:
    """All n-th roots of unity."""
    return unity(n, np.arange(n)).astype(dtype.numpy)


@lru_cache(maxsize=256)
def _pass(dtype: DType, radix: int, inverse: bool, alone: bool, last: bool) -> Program:
    """Over the rows, what is left, and what is done times `width`, how many transforms lie side by side.

    The last pass has nothing left.
    """
    b = Builder(f"atlas_fourier_{radix}_{dtype}", rank=3)
    x, w = b.buffer("x", dtype, Access.READ), b.buffer("roots", dtype, Access.READ)
    out = b.buffer("out", dtype, Access.WRITE)
    n, m, s, width = (b.scalar(name, dtypes.index) for name in ("n", "m", "s", "width"))
    scale = b.scalar("scale", dtype.part) if last else None
    row, p, q = (b.coordinate(k) for k in range(3))
    if alone:  # nothing is done, and one transform wide: the longest axis last
        p, q = q, p
    start, apart = row * (n * width) + q, s * width
    given = [b.load(x, start + apart * (p + m * k)) for k in range(radix)]
    for k, z in enumerate(small(given, 1 if inverse else -1, turned)):
        if k and not last:
            turn = b.load(w, p * k * s)
            z = z * (complex_parts.conjugate(turn) if inverse else turn)
        b.store(out, start + apart * (p * radix + k), scaled(z, scale) if scale is not None else z)
    return b.build()


@frozen(eq=False, repr=False)
class Transform(Operation):
    """Transforms along an axis, from one memory to another: by a device's own code, or by passes over rows."""

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        x, table = inputs
        if not isinstance(x, Layout) or not isinstance(table, Layout) or not x.ndim:
            raise ShapeError(f"{self.name}: a tensor with an axis and the roots of unity are needed")
        if not x.dtype.is_complex or table.dtype is not x.dtype:
            raise UnsupportedDType(
                f"{self.name}: complex numbers are needed, got {x.dtype} and {table.dtype}"
            )
        n = x.shape[normalize_axis(attributes["axis"], x.ndim, self.name)]
        if table.shape != (n,) or radices(max(n, 1)) is None:
            raise ShapeError(f"{self.name}: the roots must be those of a length without prime factors above "
                             f"{PRIMES[-1]}, got {table.shape} for {n} elements of {x.shape}")  # fmt: skip
        return (Layout.contiguous(x.dtype, x.shape),)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        x, table = inputs
        assert isinstance(x, Layout)
        assert isinstance(table, Layout)
        if not outputs[0].size:
            return Plan(())
        steps, axis = Steps(3), attributes["axis"] % x.ndim
        given, end = Place(0, x), Place(2, outputs[0])
        if target.limits.own_transforms and x.shape[axis] > 1:
            own_steps(steps, given, end, axis, attributes["inverse"], attributes["scale"])
        else:
            self._by_passes(
                steps, steps.gathered(given), steps.gathered(Place(1, table)), end, attributes, target
            )
        return steps.plan()

    def _by_passes(
        self, steps: Steps, now: Place, table: Place, end: Place, attributes: Attributes, target: Target
    ) -> None:
        shape, dtype, axis = now.layout.shape, now.layout.dtype, attributes["axis"] % now.layout.ndim
        n, width = shape[axis], math.prod(shape[axis + 1 :])
        parts, scale = radices(n) or (1,), attributes["scale"]
        straight = end.layout.is_contiguous and not end.layout.offset
        rows, s = math.prod(shape[:axis]), 1
        how = Rows.of(int(n), parts, dtype, target.limits) if width == 1 else None
        if how is not None:
            to = end if straight else steps.place(dtype, end.layout.shape)
            program = row_program(int(n), parts, how, dtype, attributes["inverse"])
            steps.add(Step(program, (0, 1, 2), (rows, scale), (groups(int(rows), how),)),
                      (now.position, table.position, to.position))  # fmt: skip
            if not straight:
                steps.copy(to, end)
            return
        for k, radix in enumerate(parts):
            final, m = k == len(parts) - 1, n // (s * radix)
            to = end if final and straight else steps.place(dtype, end.layout.shape)
            alone = s * width == 1
            program = _pass(dtype, radix, attributes["inverse"], alone, final)
            grid = (rows, 1, m) if alone else (rows, m, s * width)
            step = Step(program, (0, 1, 2), (n, m, s, width, *([scale] if final else [])), grid)
            steps.add(step, (now.position, table.position, to.position))
            now, s = to, s * radix
        if not straight:
            steps.copy(now, end)


def _samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for *shape, n in (
        (1,),
        (2,),
        (3, 8),
        (2, 12),
        (5, 1),
        (0, 4),
        (2, 3, 30),
        (77,),
        (1024,),
        (4, 625),
        (2, 1001),
    ):
        for inverse in (False, True):
            yield Sample((array(rng, dtype, (*shape, n), -2, 2), roots(n, dtype)), {"inverse": inverse})
    for shape, axis in (((8, 5), 0), ((2, 12, 20), 1), ((3, 4, 2, 5), 1), ((256, 18), -2), ((5, 512), 1)):
        attributes = {"inverse": axis == 1, "axis": axis, "scale": 0.5}
        yield Sample((array(rng, dtype, shape, -2, 2), roots(shape[axis], dtype)), attributes)


def _turned_back(cotangent: Any, roots: Any, inverse: Any, axis: Any, scale: Any) -> Any:
    return OPERATIONS["transform"](cotangent, roots, inverse=not inverse, axis=axis, scale=scale)


def _reference(
    x: np.ndarray, table: np.ndarray, inverse: bool, axis: int = -1, scale: float = 1.0
) -> np.ndarray:
    made = np.fft.ifft(x, axis=axis) * x.shape[axis] if inverse else np.fft.fft(x, axis=axis)
    return made * scale


@declared(Transform, dtypes=COMPLEX, reference=_reference, samples=_samples, methods=False, absolute=256.0,
          gradient={"x": _turned_back,
                    "roots": None})  # fmt: skip
def transform(x, roots, *, inverse=False, axis=-1, scale=1.0):
    """The sums of x[j] roots[j k] along an axis, or with the roots' conjugates, times `scale`; see hg.fft.

    `roots` are the n-th roots of unity, exp(-2 pi i j / n); n has no prime factor above 13.
    """
