"""Discrete Fourier transforms of lengths without large factors: one pass over memory for each radix.

Stockham's form, which needs no reordering: with n the length, s the product of the radices done and m what is left of n
after this one, a pass takes r elements m apart, transforms them in registers, turns them by powers of the n-th root of
unity and writes them side by side (Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992, 1.7).
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from hologram.atlas import complex_parts
from hologram.atlas.builder import Builder, Value, select
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes
from hologram.foundation.dtypes import COMPLEX, DType
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Step, Target
from hologram.opset.forms.map import indexed
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

PRIMES = (3, 5, 7, 11, 13)  # beside 2, whose powers go by 16 at most


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


def roots(n: int, dtype: DType) -> np.ndarray:
    """The n-th roots of unity, clockwise, of angles that are reduced to an eighth of the circle before."""
    k = np.arange(n)
    eighths = 8 * k
    turn = np.round(eighths / (2 * n)).astype(np.int64)  # quarters
    angle = 2 * np.pi * (eighths - 2 * n * turn) / (8 * n)
    return (np.exp(-1j * angle) * np.array([1, -1j, -1, 1j])[turn % 4]).astype(dtype.numpy)


def _turned(z: Value, angle: float) -> Value:
    """A number times e^(2 pi i angle)."""
    quarters = angle * 4.0
    if quarters == round(quarters):
        x, y = complex_parts.real(z), complex_parts.imag(z)
        return (z, complex_parts.pair(-y, x), -z, complex_parts.pair(y, -x))[int(quarters) % 4]
    return z * z.builder.constant(cmath.exp(2j * math.pi * angle), z.dtype)


def _small(x: Sequence[Value], sign: int) -> list[Value]:
    """The transform of few numbers, in registers."""
    n = len(x)
    if n == 1:
        return list(x)
    if n == 2:
        return [x[0] + x[1], x[0] - x[1]]
    if n in PRIMES:
        return _prime(x, sign)
    half = n // 2
    even, odd = _small(x[::2], sign), _small(x[1::2], sign)
    odd = [_turned(z, sign * k / n) for k, z in enumerate(odd)]
    return [e + o for e, o in zip(even, odd, strict=True)] + [even[k] - odd[k] for k in range(half)]


def _prime(x: Sequence[Value], sign: int) -> list[Value]:
    """By the sums and differences of elements that stand opposite each other."""
    n = len(x)
    pairs = [(x[k] + x[n - k], x[k] - x[n - k]) for k in range(1, n // 2 + 1)]
    result: list[Value] = [x[0]] * n
    for total, _ in pairs:
        result[0] = result[0] + total
    for j in range(1, n // 2 + 1):
        along, across = x[0], None
        for k, (total, apart) in enumerate(pairs, 1):
            angle = 2 * math.pi * j * k / n
            along = along + total * math.cos(angle)
            term = apart * (sign * math.sin(angle))
            across = term if across is None else across + term
        assert across is not None
        up = _turned(across, 0.25)
        result[j], result[n - j] = along + up, along - up
    return result


@lru_cache(maxsize=256)
def _pass(dtype: DType, radix: int, inverse: bool, first: bool, last: bool) -> Program:
    """Over the rows, what is left and what is done; the first pass has nothing done, the last nothing left."""
    b = Builder(f"atlas_fourier_{radix}_{dtype}", rank=3)
    x, w = b.buffer("x", dtype, Access.READ), b.buffer("roots", dtype, Access.READ)
    out = b.buffer("out", dtype, Access.WRITE)
    n, m, s = (b.scalar(name, dtypes.index) for name in ("n", "m", "s"))
    row, p, q = (b.coordinate(k) for k in range(3))
    if first:  # the longest axis last
        p, q = q, p
    given = [b.load(x, row * n + q + s * (p + m * k)) for k in range(radix)]
    for k, z in enumerate(_small(given, 1 if inverse else -1)):
        if k and not last:
            turn = b.load(w, p * k * s)
            z = z * (complex_parts.conjugate(turn) if inverse else turn)
        b.store(out, row * n + q + s * (p * radix + k), z)
    return b.build()


@frozen(eq=False, repr=False)
class Transform(Operation):
    """Passes over rows, from one memory to another."""

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        x, table = inputs
        if not isinstance(x, Layout) or not isinstance(table, Layout) or not x.ndim:
            raise ShapeError(f"{self.name}: a tensor with an axis and the roots of unity are needed")
        if not x.dtype.is_complex or table.dtype is not x.dtype:
            raise UnsupportedDType(
                f"{self.name}: complex numbers are needed, got {x.dtype} and {table.dtype}"
            )
        if table.shape != x.shape[-1:] or radices(max(x.shape[-1], 1)) is None:
            raise ShapeError(f"{self.name}: the roots must be those of a length without prime factors above "
                             f"{PRIMES[-1]}, got {table.shape} for {x.shape}")  # fmt: skip
        return (Layout.contiguous(x.dtype, x.shape),)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        x, out = inputs[0], outputs[0]
        assert isinstance(x, Layout)
        if not out.size:
            return Plan(())
        steps = Steps(3)
        n, dtype = x.shape[-1], x.dtype
        parts = radices(n)
        assert parts is not None
        now, end = steps.gathered(Place(0, x)), Place(2, out)
        straight = out.is_contiguous and not out.offset
        table = steps.gathered(Place(1, inputs[1]))  # type: ignore[arg-type]
        rows, s = x.size // n, 1
        for k, radix in enumerate(parts):
            final, m = k == len(parts) - 1, n // (s * radix)
            to = end if final and straight else steps.place(dtype, out.shape)
            program = _pass(dtype, radix, attributes["inverse"], not k, final)
            grid = (rows, 1, m) if not k else (rows, m, s)
            step = Step(program, (0, 1, 2), (n, m, s), grid)
            steps.add(step, (now.position, table.position, to.position))
            now, s = to, s * radix
        if not parts or not straight:
            steps.copy(now, end)
        return steps.plan()


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


def _turned_back(cotangent: Any, roots: Any, inverse: Any) -> Any:
    return OPERATIONS["transform"](cotangent, roots, inverse=not inverse)


def _reference(x: np.ndarray, table: np.ndarray, inverse: bool) -> np.ndarray:
    return np.fft.ifft(x) * x.shape[-1] if inverse else np.fft.fft(x)


@declared(Transform, dtypes=COMPLEX, reference=_reference, samples=_samples, methods=False, absolute=256.0,
          gradient={"x": _turned_back,
                    "roots": None})  # fmt: skip
def transform(x, roots, *, inverse=False):
    """The sums of x[j] roots[j k] along the last axis, or with the roots' conjugates; see hg.fft, which divides too.

    `roots` are the n-th roots of unity, exp(-2 pi i j / n); n has no prime factor above 13.
    """


# Of real numbers: n of them are n / 2 complex ones, whose transform is taken apart.


def _halves(x: Layout, roots: Layout) -> Layout:
    return Layout.contiguous(x.dtype, (*x.shape[:-1], x.shape[-1] + 1))


def _half_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for *shape, m in ((1,), (2,), (3, 8), (2, 15), (0, 4)):
        yield Sample((array(rng, dtype, (*shape, m), -2, 2), roots(2 * m, dtype)))


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
    return ((a + b) + _turned((a - b) * turn, -0.25)) * 0.5


def _joined(x: Layout, roots: Layout) -> Layout:
    return Layout.contiguous(x.dtype, (*x.shape[:-1], x.shape[-1] - 1))


def _join_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for *shape, m in ((1,), (2,), (3, 8), (2, 15), (0, 4)):
        yield Sample((array(rng, dtype, (*shape, m + 1), -2, 2), roots(2 * m, dtype)))


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
    return (a + b) + _turned((a - b) * complex_parts.conjugate(roots.at(k)), 0.25)
