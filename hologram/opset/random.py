"""Random numbers from a counter: the same stream on every backend, for a seed and an offset.

Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011). Element i of a
draw is word i % 4 of the block whose counter is offset + i // 4; the key is the seed.
"""

# Declarations are annotated for those who call them; their bodies get Values.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from hologram import dtypes
from hologram.atlas import builder as atlas
from hologram.atlas.builder import Value, mulhi, select
from hologram.dtypes import FLOATS, DType, u32
from hologram.errors import ShapeError, UnsupportedDType
from hologram.layout import Layout, integers
from hologram.opset.forms.map import IndexedOperand, indexed
from hologram.opset.forms.operation import Sample
from hologram.opset.logic import where
from hologram.opset.math import cos, log, sqrt
from hologram.records import frozen

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def philox(counter: Value, key: Value, turn: Value | None = None) -> tuple[Value, Value, Value, Value]:
    """Four random words for a counter, a key and, where an element draws again, the number of its turn, all u32."""
    b = counter.builder
    zero = b.constant(0, u32)
    c0, c1, c2, c3 = counter, zero if turn is None else turn, zero, zero
    k0, k1 = key, zero
    for _ in range(ROUNDS):
        m0, m1 = b.constant(MULTIPLIERS[0], u32), b.constant(MULTIPLIERS[1], u32)
        c0, c1, c2, c3 = mulhi(m1, c2) ^ c1 ^ k0, m1 * c2, mulhi(m0, c0) ^ c3 ^ k1, m0 * c0
        k0, k1 = k0 + WEYL[0], k1 + WEYL[1]
    return c0, c1, c2, c3


def philox_reference(counter: np.ndarray, key: int, turn: int = 0) -> tuple[np.ndarray, ...]:
    """The same in NumPy, on u64 arithmetic."""
    low = np.uint64(0xFFFFFFFF)
    c = [counter.astype(np.uint64), *(np.full_like(counter, n, np.uint64) for n in (turn, 0, 0))]
    k0, k1 = key, 0
    for _ in range(ROUNDS):
        p0, p1 = np.uint64(MULTIPLIERS[0]) * c[0], np.uint64(MULTIPLIERS[1]) * c[2]
        c = [
            p1 >> np.uint64(32) ^ c[1] ^ np.uint64(k0),
            p1 & low,
            p0 >> np.uint64(32) ^ c[3] ^ np.uint64(k1),
            p0 & low,
        ]
        k0, k1 = (k0 + WEYL[0]) & 0xFFFFFFFF, (k1 + WEYL[1]) & 0xFFFFFFFF
    return tuple(x.astype(np.uint32) for x in c)


def linear(at: tuple[Value, ...]) -> Value:
    """The element's number in row-major order, as u32."""
    b = at[0].builder
    total = at[0]
    for axis in range(1, len(at)):
        total = total * b.extent(axis) + at[axis]
    return total.to(u32)


def _word(at: tuple[Value, ...], seed: Value, offset: Value) -> Value:
    element = linear(at)
    words = philox((element >> 2) + offset, seed)
    lane = element & 3
    return select(lane == 0, words[0], select(lane == 1, words[1], select(lane == 2, words[2], words[3])))


def _bits(dtype: DType) -> int:
    """How many bits of a word make a float in [0, 1): no more than the dtype has, so that none rounds to 1."""
    return {dtypes.f16: 11, dtypes.bf16: 8}.get(dtype, 24)


def unit(word: Value, dtype: DType, bits: int = 24) -> Value:
    """A word as a float in [0, 1), from its upper bits."""
    return (word >> (32 - bits)).to(dtype) * 2.0**-bits


def _words_reference(size: int, seed: int, offset: int) -> np.ndarray:
    counters = np.arange(-(-size // 4), dtype=np.uint32) + np.uint32(offset)
    return np.stack(philox_reference(counters, seed), axis=1).reshape(-1)[:size]


def _uniform_reference(shape, low=0.0, high=1.0, seed=0, offset=0, dtype="f32"):
    bits = {"f16": 11, "bf16": 8}.get(dtype, 24)
    unit = (_words_reference(math.prod(shape), seed, offset) >> (32 - bits)).astype(np.float64) * 2.0**-bits
    return low + unit.reshape(shape) * (high - low)


def _shape_of(*, shape, dtype, **rest):
    element = dtypes.dtype(dtype)
    if not element.is_float:
        raise UnsupportedDType(f"random numbers must be floats, got {element}")
    return Layout.contiguous(element, integers(shape, "random numbers: a size"))


def _normal_shape(*, shape, std, dtype, **rest):
    if isinstance(std, (int, float)) and std < 0:
        raise ValueError(f"random_normal: std must be at least 0, got {std!r}")
    return _shape_of(shape=shape, dtype=dtype)


def _random_samples(**attributes: float):
    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for shape, seed, offset in (
            ((1031,), 7, 0),
            ((3, 5, 7), 4_000_000_000, 12),
            ((0, 3), 1, 1),
            ((), 2, 9),
        ):
            yield Sample(
                (), {"shape": shape, "seed": seed, "offset": offset, "dtype": dtype.name, **attributes}
            )

    return make


@frozen(eq=False)
class Key:
    """A seed and an offset in memory, two u32: in a function that is traced, a `seed` that is another at each call.

    The operation's own `offset` counts from the one in memory.
    """

    words: Any


def _words_shape(key, *, shape, **rest):
    if key.shape != (2,) or key.dtype is not u32:
        raise ShapeError(f"random_words: a key is two u32, got {key.dtype} of shape {key.shape}")
    return Layout.contiguous(u32, integers(shape, "random numbers: a size"))


def _words_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, key, offset, word in (
        ((1031,), (7, 0), 0, -1),
        ((3, 5), (4_000_000_000, 12), 3, -1),
        ((9,), (1, 2), 0, 1),
    ):
        yield Sample((np.array(key, np.uint32),), {"shape": shape, "offset": offset, "word": word})


def _random_words_reference(key, shape, offset=0, word=-1):
    size, seed, first = math.prod(shape), int(key[0]), (int(key[1]) + offset) % 2**32
    if word < 0:
        return _words_reference(size, seed, first).reshape(shape)
    return _words_reference(4 * size, seed, first)[word::4].reshape(shape)


@indexed(shape_of=_words_shape, dtypes=(u32,), scalars={"offset": u32}, samples=_words_samples,
         reference=_random_words_reference, methods=False)  # fmt: skip
def random_words(at, key: IndexedOperand, *, shape, offset: Any = 0, word: int = -1):
    """Random u32 for a key (a seed and an offset); with a `word`, that one of a block for each element."""
    seed, first = (key.at(at[0].builder.constant(k, dtypes.index)) for k in (0, 1))
    if word < 0:
        return _word(at, seed, first + offset)
    return philox(linear(at) + first + offset, seed)[word]


def _units_of(words: Any, dtype: DType, bits: int = 24) -> Any:
    return (words >> (32 - bits)).astype(dtype) * 2.0**-bits


def _uniform_parts(operation, *, shape, low, high, seed, offset, dtype):
    if not isinstance(seed, Key):
        return None
    element = dtypes.dtype(dtype)
    return low + _units_of(random_words(seed.words, shape=shape, offset=offset), element, _bits(element)) * (
        high - low
    )


def _normal_parts(operation, *, shape, mean, std, seed, offset, dtype):
    if not isinstance(seed, Key):
        return None
    element = dtypes.dtype(dtype)
    first, second = (random_words(seed.words, shape=shape, offset=offset, word=k) for k in (0, 1))
    radius = sqrt(-2.0 * log(((first >> 8) + 1).astype(element) * 2.0**-24))
    return mean + std * (radius * cos(_units_of(second, element) * (2.0 * math.pi)))


def _dropout_parts(operation, x, *, p, seed, offset):
    if not isinstance(seed, Key):
        return None
    keep = _units_of(random_words(seed.words, shape=x.shape, offset=offset), dtypes.f32) >= p
    return where(keep, x * (1.0 / (1.0 - p) if p < 1 else 0.0), 0.0)


# Attributes that are passed at launch, and as what: None is the dtype computed in.
PARAMETERS: dict[str, DType | None] = {
    "seed": u32, "offset": u32, "low": None, "high": None, "mean": None, "std": None, "p": None,
}  # fmt: skip


@indexed(shape_of=_shape_of, dtypes=FLOATS, scalars=PARAMETERS, samples=_random_samples(low=-2.0, high=3.0),
         ulp=2, absolute=4.0,
         reference=_uniform_reference, methods=False, parts=_uniform_parts)  # fmt: skip
def random_uniform(
    at, *, shape, low: Any = 0.0, high: Any = 1.0, seed: Any = 0, offset: Any = 0, dtype="f32"
):
    """Floats in [low, high), 2^24 different ones (f16 2^11, bf16 2^8). `seed` and `offset` are in [0, 2^32)."""
    return low + unit(_word(at, seed, offset), low.dtype, _bits(dtypes.dtype(dtype))) * (high - low)


def _normal_reference(shape, mean=0.0, std=1.0, seed=0, offset=0, dtype="f32"):
    size = math.prod(shape)
    counters = np.arange(size, dtype=np.uint32) + np.uint32(offset)
    a, b, _, _ = philox_reference(counters, seed)
    radius = np.sqrt(-2 * np.log(((a >> 8).astype(np.float64) + 1) * 2.0**-24))
    return mean + std * (radius * np.cos(2 * np.pi * (b >> 8).astype(np.float64) * 2.0**-24)).reshape(shape)


@indexed(shape_of=_normal_shape, dtypes=FLOATS, scalars=PARAMETERS, samples=_random_samples(mean=1.0, std=2.0),
         ulp=8, absolute=64.0,
         reference=_normal_reference, methods=False, parts=_normal_parts)  # fmt: skip
def random_normal(at, *, shape, mean: Any = 0.0, std: Any = 1.0, seed: Any = 0, offset: Any = 0, dtype="f32"):
    """Normally distributed floats (Box, Muller 1958); element i uses the block whose counter is offset + i."""
    first, second, _, _ = philox(linear(at) + offset, seed)
    radius = atlas.sqrt(-2.0 * atlas.log(((first >> 8) + 1).to(mean.dtype) * 2.0**-24))
    return mean + std * (radius * atlas.cos(unit(second, mean.dtype) * (2.0 * math.pi)))


def _dropout_reference(x, p=0.5, seed=0, offset=0):
    unit = (_words_reference(np.size(x), seed, offset) >> 8).astype(np.float64) * 2.0**-24
    return np.where(unit.reshape(np.shape(x)) >= p, x * (1 / (1 - p)), 0.0)


def _dropout_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape in ((1031,), (4, 5, 6)):
        yield Sample((rng.uniform(-4, 4, shape).astype(dtype.numpy),), {"p": 0.25, "seed": 3, "offset": 5})


def _dropout_shape(x, *, p, **rest):
    if not isinstance(p, (int, float)) or not 0 <= p <= 1:
        raise ValueError(f"dropout: p must lie in [0, 1], got {p!r}")
    return Layout.contiguous(x.dtype, x.shape)


def _dropped(cotangent, p, seed, offset):
    return dropout(cotangent, p=p, seed=seed, offset=offset)  # the same elements


@indexed(shape_of=_dropout_shape, dtypes=FLOATS, scalars=PARAMETERS, samples=_dropout_samples, ulp=2,
         reference=_dropout_reference, gradient={"x": _dropped}, parts=_dropout_parts)  # fmt: skip
def dropout(at, x: IndexedOperand, *, p: Any = 0.5, seed: Any = 0, offset: Any = 0):
    """x / (1 - p) where a random number is at least p, else 0; the numbers are random_uniform's in f32."""
    keep = unit(_word(at, seed, offset), p.dtype) >= p
    return select(keep, x.at(*at) * (1.0 / (1.0 - p)), 0.0)
