"""Random numbers of distributions that have no simple inverse: proposals, of which the first that is accepted counts.

Element i proposes from the blocks of Philox whose counter is the key's offset + `offset` + i, a turn each. So it draws
the same whatever the others do, and there are so many turns that none is left without an accepted proposal.
"""

# Declarations are annotated for those who call them; their bodies get Values.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, u32, u64
from hologram.foundation.errors import ShapeError
from hologram.machine.layout import Layout
from hologram.opset.forms.map import IndexedOperand, indexed
from hologram.opset.forms.operation import Sample
from hologram.opset.random import (
    blocks_reference,
    checked_key,
    fine_unit,
    keyed,
    linear,
    unit,
    units_reference,
)
from hologram.opset.special.gamma import gamma_density

TURNS = 128  # the least lucky proposal, a binomial one, is refused three times out of four
FEW = 10.0  # up to this mean, running sums of probabilities are shorter
SUMS = 64  # probabilities that are added up then

Numbers = tuple[Value, ...]  # four


class Draws:
    """The numbers of one element, in [0, 1); of the dtype's bits, for which f64 takes words of two blocks."""

    def __init__(self, at: tuple[Value, ...], key: IndexedOperand, offset: Value, dtype: DType) -> None:
        self.builder, self.dtype = at[0].builder, dtype
        self.source, self.element = keyed(key, offset), linear(at)

    def numbers(self, turn: Value | int = 0) -> Numbers:
        upper = self.source.block(self.element, turn)
        if self.dtype is not dtypes.f64:
            return tuple(unit(word, self.dtype) for word in upper)
        lower = self.source.block(self.element, turn, finer=1)
        return tuple(map(fine_unit, upper, lower))

    def accepted(self, propose: Callable[[Numbers], tuple[Value, Value]], first: Value) -> Value:
        """The first number that a proposal says yes to; turns count from 1."""
        none = self.builder.constant(0, u32)

        def again(turn: Value, going: Value) -> tuple[Value, Value]:
            number, yes = propose(self.numbers(turn.to(u32) + 1))
            return number, select(yes, none, going)

        def turns(turn: Value, number: Value, going: Value) -> tuple[Value, ...]:
            return self.builder.if_(going > 0, lambda: again(turn, going), lambda: (number, going))

        return self.builder.loop(0, TURNS, turns, first=(first, none + 1))[0]


def _least(dtype: DType) -> float:
    """A probability too small to be met by the bits of a uniform number."""
    return 1e-17 if dtype is dtypes.f64 else 1e-8


def counted(draws: Draws, none: Value, ratio: Callable[[Value], Value]) -> Value:
    """The number at which the sum of probabilities passes a uniform one; `ratio` is of one to the one before."""
    wanted, least = draws.numbers()[0], _least(none.dtype)

    def turn(k: Value, probability: Value, total: Value, number: Value) -> tuple[Value, ...]:
        further = (wanted >= total) & (probability > least)
        probability = probability * ratio(number + 1.0)
        return select(further, probability, 0.0), total + probability, select(further, number + 1.0, number)

    zero = draws.builder.constant(0.0, none.dtype)
    first = select(none > least, none, least * 2.0)
    return draws.builder.loop(0, SUMS, turn, first=(first, none, zero))[2]


def poisson_mass(k: Value, rate: Value) -> Value:
    """The probability of k events where `rate` are expected; exact for none (Loader 2000, by its gamma function)."""
    some = select(k > 0.0, k, 1.0)
    return select(k > 0.0, gamma_density(some, rate) / some, atlas.exp(-rate))


# Declarations.


def _shape_of(*operands: Layout, **rest: Any) -> Layout:
    *parameters, key = operands
    checked_key(key)
    if any(x.shape != parameters[0].shape or x.dtype is not parameters[0].dtype for x in parameters):
        kinds = " and ".join(f"{x.dtype} of shape {x.shape}" for x in parameters)
        raise ShapeError(f"random numbers: parameters must be of one shape and dtype, got {kinds}")
    return Layout.contiguous(parameters[0].dtype, parameters[0].shape)


def _samples(*parameters: Callable[[np.random.Generator, Any], Any]) -> Any:
    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for shape, seed, offset in (((211,), 7, 0), ((3, 5), 2**63 + 4_000, 2**33), ((), 1, 0), ((0,), 1, 0)):
            given = [np.asarray(each(rng, shape)).astype(dtype.numpy) for each in parameters]
            yield Sample((*given, np.array([seed, 12], np.uint64)), {"offset": offset})

    return make


def _numbers_reference(like: np.ndarray, key: Any, offset: int, turn: int = 0) -> np.ndarray:
    """As Draws.numbers, in the bits of the parameters' dtype: four rows of numbers for its elements."""
    place = (like.size, int(key[0]), int(key[1]) + offset, turn)
    upper = blocks_reference(*place).T
    return units_reference(upper, blocks_reference(*place, finer=1).T if like.dtype == np.float64 else None)


def _accepted_reference(
    propose: Callable[..., tuple[np.ndarray, np.ndarray]],
    like: np.ndarray,
    key: Any,
    offset: int,
    first: np.ndarray,
) -> np.ndarray:
    """As Draws.accepted; `first` is the result where nothing is accepted."""
    accepted, going = first.copy(), np.ones(first.size, bool)
    for turn in range(1, TURNS + 1):
        number, yes = propose(_numbers_reference(like, key, offset, turn))
        accepted = np.where(going, number, accepted)
        going &= ~yes
        if not going.any():
            break
    return accepted


def _flat(x: Any) -> np.ndarray:
    return np.ravel(x).astype(np.float64)


def _gamma_reference(alpha: Any, key: Any, offset: int = 0) -> np.ndarray:
    shape, like, a = np.shape(alpha), np.ravel(alpha), _flat(alpha)
    small = a < 1
    d = np.where(small, a + 1, a) - 1 / 3
    c = 1 / np.sqrt(9 * d)

    def propose(numbers: Any) -> tuple[np.ndarray, np.ndarray]:
        radius = np.sqrt(-2 * np.log(1 - numbers[0]))
        x = radius * np.cos(2 * np.pi * numbers[1])
        v = np.maximum(1 + c * x, 0) ** 3
        u = 1 - numbers[2]
        return d * v, (v > 0) & (np.log(u) < 0.5 * x * x + d * (1 - v + np.log(np.maximum(v, 1e-300))))

    accepted = _accepted_reference(propose, like, key, offset, np.zeros(a.size))
    boost = np.log(1 - _numbers_reference(like, key, offset)[0]) / np.where(small, a, 1)
    return (accepted * np.where(small, np.exp(boost), 1)).reshape(shape)


@indexed(shape_of=_shape_of, scalars={"offset": u64}, widened=False, reference=_gamma_reference, ulp=64, methods=False,
         samples=_samples(lambda rng, shape: rng.uniform(0.3, 30, shape)))  # fmt: skip
def random_gamma(at, alpha, key: IndexedOperand, *, offset: Any = 0):
    """Numbers of the gamma distribution of shapes alpha and scale 1, for a key (Marsaglia, Tsang 2000).

    0 where alpha is 0, NaN where it is less.
    """
    draws, a = Draws(at, key, offset, alpha.computed), alpha.at(*at)
    small = a < 1.0
    d = select(small, a + 1.0, a) - 1.0 / 3.0
    c = 1.0 / atlas.sqrt(9.0 * d)

    def propose(numbers: Numbers) -> tuple[Value, Value]:
        radius = atlas.sqrt(-2.0 * atlas.log(1.0 - numbers[0]))
        x = radius * atlas.cos(numbers[1] * (2.0 * math.pi))
        y = 1.0 + c * x
        v = y * y * y
        bound = 0.5 * x * x + d * (1.0 - v + atlas.log(select(v > 0.0, v, 1.0)))
        return d * select(v < 0.0, 0.0, v), (v > 0.0) & (atlas.log(1.0 - numbers[2]) < bound)

    accepted = draws.accepted(propose, a * 0.0)
    boost = atlas.exp(atlas.log(1.0 - draws.numbers()[0]) / select(small, a, 1.0))
    ends = select(a == 0.0, 0.0, select(a < 0.0, math.nan, a))
    return select(a > 0.0, accepted * select(small, boost, 1.0), ends)


def _poisson(draws: Draws, rate: Value) -> Value:
    """By transformed rejection (Hoermann 1993: PTRS)."""
    b = 0.931 + 2.53 * atlas.sqrt(rate)
    a = -0.059 + 0.02483 * b

    def propose(numbers: Numbers) -> tuple[Value, Value]:
        u, v = numbers[0] - 0.5, numbers[1]
        us = 0.5 - atlas.absolute(u)
        k = atlas.floor((2.0 * a / us + b) * u + rate + 0.43)
        inner = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2.0))
        under = v * (1.1239 + 1.1328 / (b - 3.4)) <= poisson_mass(k, rate) * (a / (us * us) + b)
        return k, inner | ((k >= 0.0) & ((us >= 0.013) | (v <= us)) & under)

    return draws.accepted(propose, rate)


def _mass_reference(k: np.ndarray, rate: Any) -> np.ndarray:
    logs = np.vectorize(math.lgamma, otypes=[float])(np.maximum(k, 0) + 1.0)
    return np.exp(k * np.log(rate) - rate - logs)


def _counted_reference(
    wanted: np.ndarray, none: np.ndarray, ratio: Callable[[int], np.ndarray]
) -> np.ndarray:
    counts, total, probability = np.zeros(wanted.size), none.copy(), none.copy()
    for k in range(1, SUMS + 1):
        further = wanted >= total
        counts[further] = k
        probability = probability * ratio(k)
        total = np.where(further, total + probability, total)
    return counts


def _poisson_reference(rate: Any, key: Any, offset: int = 0) -> np.ndarray:
    shape, like, rate = np.shape(rate), np.ravel(rate), _flat(rate)
    many = np.maximum(rate, FEW)
    b = 0.931 + 2.53 * np.sqrt(many)
    a = -0.059 + 0.02483 * b

    def propose(numbers: Any) -> tuple[np.ndarray, np.ndarray]:
        u, v = numbers[0] - 0.5, numbers[1]
        us = np.maximum(0.5 - np.abs(u), 1e-300)
        k = np.floor((2 * a / us + b) * u + many + 0.43)
        inner = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        under = v * (1.1239 + 1.1328 / (b - 3.4)) <= _mass_reference(k, many) * (a / us**2 + b)
        return k, inner | ((k >= 0) & ((us >= 0.013) | (v <= us)) & under)

    large = _accepted_reference(propose, like, key, offset, many)
    small = np.minimum(rate, FEW)
    wanted = _numbers_reference(like, key, offset)[0]
    few = _counted_reference(wanted, np.exp(-small), lambda k: small / k)
    return np.where(rate < FEW, few, large).reshape(shape)


@indexed(shape_of=_shape_of, scalars={"offset": u64}, widened=False, reference=_poisson_reference, methods=False,
         gradient={"rate": None}, samples=_samples(lambda rng, shape: rng.uniform(0, 40, shape)))  # fmt: skip
def random_poisson(at, rate, key: IndexedOperand, *, offset: Any = 0):
    """How many events happen where `rate` are expected, for a key: whole numbers in the dtype of the rates.

    NaN where the rate is less than 0.
    """
    draws, mean = Draws(at, key, offset, rate.computed), rate.at(*at)
    few = select(mean < FEW, mean, 1.0)
    (events,) = draws.builder.if_(
        mean < FEW,
        lambda: (counted(draws, atlas.exp(-few), lambda k: few / k),),
        lambda: (_poisson(draws, select(mean < FEW, FEW, mean)),),
    )
    return select(mean < 0.0, math.nan, events)


def _binomial(draws: Draws, n: Value, p: Value) -> Value:
    """By transformed rejection (Hoermann 1993: BTRS), for p up to 1/2."""
    mean, q = n * p, 1.0 - p
    deviation = atlas.sqrt(mean * q)
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    alpha = (2.83 + 5.1 / b) * deviation

    def mass(k: Value) -> Value:  # but for what all k have in common
        return poisson_mass(k, mean) * poisson_mass(n - k, n * q)

    most = mass(atlas.floor((n + 1.0) * p))

    def propose(numbers: Numbers) -> tuple[Value, Value]:
        u, v = numbers[0] - 0.5, numbers[1]
        us = 0.5 - atlas.absolute(u)
        k = atlas.floor((2.0 * a / us + b) * u + mean + 0.5)
        inside = (k >= 0.0) & (k <= n)
        under = v * alpha * most <= mass(select(inside, k, 0.0)) * (a / (us * us) + b)
        return k, inside & (((us >= 0.07) & (v <= 0.92 - 4.2 / b)) | under)

    return draws.accepted(propose, mean)


def _binomial_reference(count: Any, probability: Any, key: Any, offset: int = 0) -> np.ndarray:
    shape, like, n, given = np.shape(count), np.ravel(count), _flat(count), _flat(probability)
    p = np.where(given > 0.5, 1 - given, given)
    first, odds = _numbers_reference(like, key, offset)[0], p / (1 - p)
    few = _counted_reference(first, (1 - p) ** n, lambda k: np.maximum(n - k + 1, 0) / k * odds)
    large = n * p >= FEW
    many = _btrs_reference(like, np.where(large, n, 40), np.where(large, p, 0.5), key, offset)
    successes = np.where(large, many, few)
    return np.where(given > 0.5, n - successes, successes).reshape(shape)


def _btrs_reference(like: np.ndarray, n: np.ndarray, p: np.ndarray, key: Any, offset: int) -> np.ndarray:
    deviation = np.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p

    def mass(k: np.ndarray) -> np.ndarray:
        return _mass_reference(k, n * p) * _mass_reference(n - k, n * (1 - p))

    scale = (2.83 + 5.1 / b) * deviation * mass(np.floor((n + 1) * p))

    def propose(numbers: Any) -> tuple[np.ndarray, np.ndarray]:
        u, v = numbers[0] - 0.5, numbers[1]
        us = np.maximum(0.5 - np.abs(u), 1e-300)
        k = np.floor((2 * a / us + b) * u + n * p + 0.5)
        inside = (k >= 0) & (k <= n)
        under = v * scale <= mass(np.where(inside, k, 0)) * (a / us**2 + b)
        return k, inside & (((us >= 0.07) & (v <= 0.92 - 4.2 / b)) | under)

    return _accepted_reference(propose, like, key, offset, n * p)


@indexed(shape_of=_shape_of, scalars={"offset": u64}, widened=False, reference=_binomial_reference, methods=False,
         samples=_samples(lambda rng, shape: rng.integers(0, 120, shape),
                          lambda rng, shape: rng.uniform(0, 1, shape)))  # fmt: skip
def random_binomial(at, count, probability, key: IndexedOperand, *, offset: Any = 0):
    """How many of `count` trials succeed, each with that probability, for a key: whole numbers in their dtype.

    As in PyTorch, a count below 0 is none, a probability below 0 is 0, and one above 1 is 1.
    """
    draws, n, given = Draws(at, key, offset, count.computed), count.at(*at), probability.at(*at)
    p = select(given > 0.5, 1.0 - given, given)
    few = n * p < FEW
    some, part = select(few, 2.0 * FEW, n), select(few, 0.5, p)
    (successes,) = draws.builder.if_(
        few,
        lambda: (
            counted(draws, atlas.exp(n * atlas.log1p(-p)), lambda k: (n - k + 1.0) / k * p / (1.0 - p)),
        ),
        lambda: (_binomial(draws, some, part),),
    )
    return select(given != given, given, select(given > 0.5, n - successes, successes))
