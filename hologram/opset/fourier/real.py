"""Discrete Fourier transforms of real numbers: n of them are n / 2 complex ones, whose transform is taken apart."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hologram.atlas import complex_parts
from hologram.atlas.functions import select
from hologram.foundation.dtypes import COMPLEX, DType, f32, f64
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.map import indexed
from hologram.opset.forms.operation import (
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
from hologram.opset.fourier.passes import transform, turned
from hologram.opset.tiles.fourier import half_steps


def _halves(x: Layout, roots: Layout) -> Layout:
    return Layout.contiguous(x.dtype, (*x.shape[:-1], x.shape[-1] + 1))


def _half_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for *shape, m in ((1,), (2,), (3, 8), (2, 15), (0, 4)):
        yield Sample((array(rng, dtype, (*shape, m), -2, 2), unity(2 * m, dtype)))


def _split_reference(x: np.ndarray, roots: np.ndarray) -> np.ndarray:
    pairs = np.fft.ifft(x)
    return np.fft.rfft(np.stack([pairs.real, pairs.imag], -1).reshape(*x.shape[:-1], 2 * x.shape[-1]))


@indexed(shape_of=_halves, dtypes=COMPLEX, reference=_split_reference, samples=_half_samples, methods=False,
         absolute=8.0)  # fmt: skip
def split_spectrum(at, x, roots):
    """The first half, and one more, of the spectrum of n real numbers, from that of n / 2 pairs of them."""
    *rows, k = at
    m = x.extent(-1)
    a = x.at(*rows, select(k < m, k, 0))
    b = complex_parts.conjugate(x.at(*rows, select((k == 0) | (k == m), 0, m - k)))
    # The root of m is -1, and not in the table's first half.
    turn = roots.at(select(k < m, k, 0))
    turn = select(k < m, turn, -turn)
    return ((a + b) + turned((a - b) * turn, -0.25)) * 0.5


def _joined(x: Layout, roots: Layout) -> Layout:
    return Layout.contiguous(x.dtype, (*x.shape[:-1], x.shape[-1] - 1))


def _join_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for *shape, m in ((1,), (2,), (3, 8), (2, 15), (0, 4)):
        yield Sample((array(rng, dtype, (*shape, m + 1), -2, 2), unity(2 * m, dtype)))


def _join_reference(x: np.ndarray, roots: np.ndarray) -> np.ndarray:
    m = x.shape[-1] - 1
    pairs = (np.fft.irfft(x, 2 * m) * 2 * m).reshape(*x.shape[:-1], m, 2)
    return np.fft.fft(pairs[..., 0] + 1j * pairs[..., 1]) / m


@indexed(shape_of=_joined, dtypes=COMPLEX, reference=_join_reference, samples=_join_samples, methods=False,
         absolute=8.0)  # fmt: skip
def joined_spectrum(at, x, roots):
    """The spectrum of n / 2 pairs of real numbers, from the first half, and one more, of that of all n."""
    *rows, k = at
    m = x.extent(-1) - 1
    a, b = x.at(*rows, k), complex_parts.conjugate(x.at(*rows, m - k))
    a, b = (
        select(k == 0, complex_parts.pair(complex_parts.real(z), 0.0), z) for z in (a, b)
    )  # as of real numbers
    return (a + b) + turned((a - b) * complex_parts.conjugate(roots.at(k)), 0.25)


def _both(x: Layout) -> Layout:
    return Layout.contiguous(x.dtype, (*x.shape[:-1], max(2 * x.shape[-1] - 1, 0)))


def _both_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape in ((1,), (2,), (3, 8), (0, 4)):
        yield Sample((array(rng, dtype, shape, -2, 2),))


def _both_reference(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, x[..., :0:-1].conj()], axis=-1)


@indexed(shape_of=_both, dtypes=COMPLEX, reference=_both_reference, samples=_both_samples, methods=False)
def odd_spectrum(at, x):
    """All n elements of the spectrum of real numbers, from the first (n + 1) / 2; n is odd."""
    *rows, k = at
    m = x.extent(-1)
    z = x.at(*rows, select(k < m, k, 2 * m - 1 - k))
    return select(k < m, z, complex_parts.conjugate(z))


class _Real(Operation):
    """Operands: x, the roots of unity of the length n, and those of n / 2, or of n where it is odd."""

    def _checked(self, inputs: Inputs, complex_: bool) -> tuple[Layout, Layout, Layout]:
        x, table, half = inputs
        if not (isinstance(x, Layout) and isinstance(table, Layout) and isinstance(half, Layout)):
            raise TypeError(f"{self.name}: operands must be Tensors, got {x}, {table} and {half}")
        if (
            x.dtype.is_complex is not complex_
            or x.dtype.complex is not table.dtype
            or half.dtype is not table.dtype
        ):
            raise UnsupportedDType(f"{self.name}: {'complex' if complex_ else 'real'} numbers and complex roots are "
                                   f"needed, got {x.dtype}, {table.dtype} and {half.dtype}")  # fmt: skip
        n = table.size
        wanted = n // 2 + 1 if complex_ else n
        if (
            not x.ndim
            or x.shape[-1] != wanted
            or (table.shape, half.shape) != ((n,), (n if n % 2 else n // 2,))
        ):
            raise ShapeError(f"{self.name}: roots of the length and of its half are needed, got {table.shape} "
                             f"and {half.shape} for {x.shape}")  # fmt: skip
        return x, table, half


@frozen(eq=False, repr=False)
class RealTransform(_Real):
    """Pairs of neighbours are complex numbers, whose spectrum is taken apart."""

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        x, table, _ = self._checked(inputs, False)
        return (Layout.contiguous(table.dtype, (*x.shape[:-1], table.size // 2 + 1)),)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        x, table, half = self._checked(inputs, False)
        if not outputs[0].size:
            return Plan(())
        steps, out = Steps(4), Place(3, outputs[0])
        how = {"inverse": False, "axis": -1, "scale": attributes["scale"]}
        if table.size % 2:
            given, whole = (steps.place(table.dtype, x.shape) for _ in range(2))
            steps.copy(Place(0, x), given)
            made = transform.plan((given.layout, half), (whole.layout,), how, target)
            steps.extend(made, (given.position, 2, whole.position))
            steps.copy(Place(whole.position, whole.layout.narrow(-1, 0, table.size // 2 + 1)), out)
            return steps.plan()
        given, shape = steps.gathered(Place(0, x)), (*x.shape[:-1], half.size)
        own = target.limits.own_transforms
        straight = out.layout.is_contiguous and not out.layout.offset
        end = out if straight or not own else steps.place(table.dtype, out.layout.shape)
        # A device's own code takes rows apart where they lie.
        first = Place(end.position, end.layout.narrow(-1, 0, half.size))
        spectrum = first if own else steps.place(table.dtype, shape)
        pairs = Layout.contiguous(table.dtype, shape)
        made = transform.plan((pairs, half), (spectrum.layout,), how, target)
        steps.extend(made, (given.position, 2, spectrum.position))
        if own:
            half_steps(steps, spectrum, steps.gathered(Place(1, table)), end, False)
        else:
            apart = split_spectrum.plan((spectrum.layout, table), outputs, {}, target)
            steps.extend(apart, (spectrum.position, 1, 3))
        if end is not out:
            steps.copy(end, out)
        return steps.plan()


@frozen(eq=False, repr=False)
class RealInverse(_Real):
    """The spectrum of pairs of neighbours is put together, and transformed back."""

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        x, table, _ = self._checked(inputs, True)
        if table.size % 2:
            raise ShapeError(f"{self.name}: an even length is needed, got {table.size}")
        return (Layout.contiguous(table.dtype.part, (*x.shape[:-1], *table.shape)),)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        x, table, half = self._checked(inputs, True)
        if not outputs[0].size:
            return Plan(())
        steps, shape = Steps(4), (*x.shape[:-1], half.size)
        joined, pairs = steps.place(table.dtype, shape), Layout.contiguous(table.dtype, shape)
        if target.limits.own_transforms:
            half_steps(steps, steps.gathered(Place(0, x)), steps.gathered(Place(1, table)), joined, True)
        else:
            made = joined_spectrum.plan((x, table), (joined.layout,), {}, target)
            steps.extend(made, (0, 1, joined.position))
        straight = outputs[0].is_contiguous and not outputs[0].offset
        end = Place(3, outputs[0]) if straight else steps.place(table.dtype.part, outputs[0].shape)
        how = {"inverse": True, "axis": -1, "scale": attributes["scale"]}
        made = transform.plan((joined.layout, half), (pairs,), how, target)
        steps.extend(made, (joined.position, 2, end.position))
        if not straight:
            steps.copy(end, Place(3, outputs[0]))
        return steps.plan()


def _real_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for *shape, n in (
        (2,),
        (4,),
        (3, 16),
        (2, 30),
        (0, 8),
        (40, 100),
        (600,),
        (2, 1024),
        (1,),
        (3, 15),
        (0, 5),
        (243,),
    ):
        tables = (unity(k, dtype.complex) for k in (n, n if n % 2 else n // 2))
        yield Sample((array(rng, dtype, (*shape, n), -2, 2), *tables), {"scale": 0.5})


def _inverse_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for *shape, m in ((1,), (2,), (3, 8), (2, 15), (0, 4), (40, 50), (300,), (2, 512)):
        yield Sample((array(rng, dtype, (*shape, m + 1), -2, 2), unity(2 * m, dtype), unity(m, dtype)))


def _real_reference(x: np.ndarray, table: np.ndarray, half: np.ndarray, scale: float = 1.0) -> np.ndarray:
    return np.fft.rfft(x) * scale


def _inverse_reference(x: np.ndarray, table: np.ndarray, half: np.ndarray, scale: float = 1.0) -> np.ndarray:
    return np.fft.irfft(x, table.size) * (table.size * scale)


@declared(RealTransform, dtypes=(f32, f64), complex_results=True, reference=_real_reference, samples=_real_samples,
          methods=False, absolute=256.0)  # fmt: skip
def real_transform(x, roots, half, *, scale=1.0):
    """The first n / 2 + 1 sums of x[j] roots[j k] along the last axis, of n real numbers, times `scale`.

    `roots` are the n-th roots of unity, `half` those of n / 2, or of n where it is odd, whose prime factors are 13 at
    most.
    """


@declared(RealInverse, dtypes=COMPLEX, reference=_inverse_reference, samples=_inverse_samples, methods=False,
          absolute=256.0)  # fmt: skip
def real_inverse(x, roots, half, *, scale=1.0):
    """The n real numbers, times n and `scale`, of which `real_transform` makes x; n is even."""
