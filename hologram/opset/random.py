"""Random numbers from a counter: the same stream on every backend, for a seed and an offset.

Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011). The key is the seed,
all 64 bits of it. Of the counter's four words the first and the third are the block's number, which counts from the
offset in 64 bits; the second is the turn of an element that draws again, the fourth 1 where words of finer bits are
taken. Element i of a draw is word i % 4 of block i // 4; in f64, which takes two words, half of block i // 2.
"""

# Declarations are annotated for those who call them; their bodies get Values.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.atlas.functions import mulhi, select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import FLOATS, DType, u32, u64
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.axes import integers
from hologram.machine.layout import Layout
from hologram.opset.forms.map import IndexedOperand, indexed
from hologram.opset.forms.operation import Sample
from hologram.opset.logic import where
from hologram.opset.math import cos, log, sqrt

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


Words = tuple[Value, Value, Value, Value]


def _halves(x: Value) -> tuple[Value, Value]:
    """A u64 as two u32, the lower first."""
    return x.to(u32), (x >> 32).to(u32)


class Source:
    """The blocks of a seed that begin at an offset, both u64."""

    def __init__(self, seed: Value, offset: Value) -> None:
        self.seed, self.first = _halves(seed), _halves(offset)

    def block(self, number: Value, turn: Value | int = 0, finer: int = 0) -> Words:
        """Four random words; `number` and `turn` are u32."""
        b = number.builder
        low = self.first[0] + number
        high = self.first[1] + (low < number).to(u32)
        c0, c1, c2, c3 = low, b.value(turn, u32), high, b.constant(finer, u32)
        k0, k1 = self.seed
        for _ in range(ROUNDS):
            m0, m1 = b.constant(MULTIPLIERS[0], u32), b.constant(MULTIPLIERS[1], u32)
            c0, c1, c2, c3 = mulhi(m1, c2) ^ c1 ^ k0, m1 * c2, mulhi(m0, c0) ^ c3 ^ k1, m0 * c0
            k0, k1 = k0 + WEYL[0], k1 + WEYL[1]
        return c0, c1, c2, c3

    def word(self, element: Value) -> Value:
        """The element's own word."""
        return _chosen(element & 3, self.block(element >> 2))

    def pair(self, element: Value) -> tuple[Value, Value]:
        """The element's own two words, the upper first."""
        words = self.block(element >> 1)
        odd = element & 1
        return _chosen(odd, words[::2]), _chosen(odd, words[1::2])


def _chosen(which: Value, words: tuple[Value, ...]) -> Value:
    word = words[-1]
    for k in reversed(range(len(words) - 1)):
        word = select(which == k, words[k], word)
    return word


def blocks_reference(count: int, seed: int, offset: int, turn: int = 0, finer: int = 0) -> np.ndarray:
    """So many blocks in NumPy, on u64 arithmetic: a row of four words each."""
    low = np.uint64(0xFFFFFFFF)
    number = np.arange(count, dtype=np.uint64) + np.uint64(offset % 2**64)
    c = [number & low, np.full_like(number, turn), number >> np.uint64(32), np.full_like(number, finer)]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(ROUNDS):
        p0, p1 = np.uint64(MULTIPLIERS[0]) * c[0], np.uint64(MULTIPLIERS[1]) * c[2]
        c = [
            p1 >> np.uint64(32) ^ c[1] ^ np.uint64(k0),
            p1 & low,
            p0 >> np.uint64(32) ^ c[3] ^ np.uint64(k1),
            p0 & low,
        ]
        k0, k1 = (k0 + WEYL[0]) & 0xFFFFFFFF, (k1 + WEYL[1]) & 0xFFFFFFFF
    return np.stack(c, axis=1).astype(np.uint32)


def linear(at: tuple[Value, ...]) -> Value:
    """The element's number in row-major order, as u32."""
    b = at[0].builder
    total = at[0]
    for axis in range(1, len(at)):
        total = total * b.extent(axis) + at[axis]
    return total.to(u32)


def bits_of(dtype: DType) -> int:
    """How many bits make a float in [0, 1): no more than the dtype has, so that none rounds to 1."""
    return min(dtype.digits, 53) if dtype.is_float else 24


def unit(word: Value, dtype: DType, bits: int = 24) -> Value:
    """A word as a float in [0, 1), from its upper bits."""
    return (word >> (32 - bits)).to(dtype) * 2.0**-bits


def fine_unit(upper: Value, lower: Value) -> Value:
    """Two words as an f64 in [0, 1), from their upper 53 bits."""
    return upper.to(dtypes.f64) * 2.0**-32 + (lower >> 11).to(dtypes.f64) * 2.0**-53


def units_reference(upper: np.ndarray, lower: np.ndarray | None = None, bits: int = 24) -> np.ndarray:
    """Both in NumPy."""
    units = (upper >> np.uint32(32 - bits)).astype(np.float64) * 2.0**-bits
    return units if lower is None else upper * 2.0**-32 + (lower >> np.uint32(11)) * 2.0**-53


def _words_reference(size: int, seed: int, offset: int) -> np.ndarray:
    return blocks_reference(-(-size // 4), seed, offset).reshape(-1)[:size]


def _uniform_reference(shape, low=0.0, high=1.0, seed=0, offset=0, dtype="f32"):
    element, size = dtypes.dtype(dtype), math.prod(shape)
    if element is dtypes.f64:
        unit = units_reference(*_words_reference(2 * size, seed, offset).reshape(size, 2).T)
    else:
        unit = units_reference(_words_reference(size, seed, offset), bits=bits_of(element))
    return low + unit.reshape(shape) * (high - low)


def _shape_of(*, shape, dtype, **rest):
    element = dtypes.dtype(dtype)
    if element not in FLOATS:
        raise UnsupportedDType(f"random numbers must be floats that are computed with, got {element}")
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
            ((77,), 2**64 - 5, 2**32 - 7),
        ):
            yield Sample(
                (), {"shape": shape, "seed": seed, "offset": offset, "dtype": dtype.name, **attributes}
            )

    return make


@frozen(eq=False)
class Key:
    """A seed and an offset in memory, two u64: in a function that is traced, a `seed` that is another at each call.

    The operation's own `offset` counts from the one in memory.
    """

    words: Any


def checked_key(key: Layout) -> None:
    """Raises ShapeError unless it is a seed and an offset."""
    if key.shape != (2,) or key.dtype is not u64:
        raise ShapeError(f"random numbers: a key is two u64, got {key.dtype} of shape {key.shape}")


def _words_shape(key, *, shape, dtype, **rest):
    checked_key(key)
    element = dtypes.dtype(dtype)
    if element not in (u32, u64):
        raise UnsupportedDType(f"random_words: words are u32 or u64, got {element}")
    return Layout.contiguous(element, integers(shape, "random numbers: a size"))


def _words_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, key, offset, word in (
        ((1031,), (7, 0), 0, -1),
        ((3, 5), (2**64 - 4_000_000_000, 2**32 - 2), 3, -1),
        ((9,), (1, 2**40), 0, 1),
    ):
        attributes = {"shape": shape, "offset": offset, "word": word, "dtype": dtype.name}
        yield Sample((np.array(key, np.uint64),), attributes)


def _random_words_reference(key, shape, offset=0, word=-1, dtype="u32"):
    size, wide = math.prod(shape), dtypes.dtype(dtype) is u64
    blocks = blocks_reference(size, int(key[0]), int(key[1]) + offset)
    pairs = blocks.reshape(-1, 2)[:size] if word < 0 else blocks[:, (word, (word + 2) % 4)]
    if wide:
        return (pairs[:, 0].astype(np.uint64) << np.uint64(32) | pairs[:, 1]).reshape(shape)
    return (blocks.reshape(-1)[:size] if word < 0 else blocks[:, word]).reshape(shape)


@indexed(shape_of=_words_shape, dtypes=(u32, u64), scalars={"offset": u64}, samples=_words_samples,
         reference=_random_words_reference, methods=False)  # fmt: skip
def random_words(at, key: IndexedOperand, *, shape, offset: Any = 0, word: int = -1, dtype="u32"):
    """Random u32 for a key (a seed and an offset), or u64, of two words each, the upper first.

    With a `word`, that one of a block for each element, and as the lower one the word that is next but one.
    """
    source, element = keyed(key, offset), linear(at)
    if dtypes.dtype(dtype) is u32:
        return source.word(element) if word < 0 else source.block(element)[word]
    if word < 0:
        upper, lower = source.pair(element)
    else:
        block = source.block(element)
        upper, lower = block[word], block[(word + 2) % 4]
    return (upper.to(u64) << 32) | lower.to(u64)


def _below_shape(key, *, shape, **rest):
    return _words_shape(key, shape=shape, dtype="u64")


def _below_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, key, span, offset in (
        ((1031,), (7, 0), 3 << 62, 0),
        ((3, 5), (2**64 - 4_000_000_000, 2**32 - 2), 2**33 + 1, 3),
        ((9,), (1, 2**40), 0, 1),
        ((0, 2), (1, 0), 1, 0),
    ):
        attributes = {"shape": shape, "span": span, "offset": offset}
        yield Sample((np.array(key, np.uint64),), attributes)


def _random_below_reference(key, shape, span=0, offset=0):
    blocks = blocks_reference(math.prod(shape), int(key[0]), int(key[1]) + offset)
    whole = [sum(int(word) << 32 * (3 - k) for k, word in enumerate(block)) for block in blocks]
    return np.array([x * (span or 1 << 64) >> 128 for x in whole], np.uint64).reshape(shape)


@indexed(shape_of=_below_shape, dtypes=(u64,), scalars={"offset": u64, "span": u64}, samples=_below_samples,
         reference=_random_below_reference, methods=False)  # fmt: skip
def random_below(at, key: IndexedOperand, *, shape, span: Any = 0, offset: Any = 0):
    """Random u64 below `span` for a key (a seed and an offset), of all 64 bits where that is 0.

    From 128 bits each: all are equally likely to 2^-64.
    """
    block = keyed(key, offset).block(linear(at))
    numbers = [word.to(u64) for word in reversed(block)]
    below = _upper_half(numbers, _halves(span))
    return select(span == 0, (numbers[3] << 32) | numbers[2], below)


def _upper_half(words: list[Value], factor: tuple[Value, Value]) -> Value:
    """The upper 64 bits of four words, the lowest first, times two: all words of 32 bits, `words` in u64."""
    carry = factor[0].to(u64) * 0
    first, second = (x.to(u64) for x in factor)
    row = []
    for word in words:
        product = word * first + carry
        row.append(product & 0xFFFFFFFF)
        carry = product >> 32
    row.append(carry)
    upper, carry = carry, carry * 0
    for word, above in zip(words, row[1:], strict=True):
        product = word * second + above + carry  # at most 2^64 - 1
        upper, carry = product & 0xFFFFFFFF, product >> 32
    return (carry << 32) | upper


def keyed(key: IndexedOperand, offset: Value) -> Source:
    """The source of a key in memory; `offset` counts from the key's own."""
    seed, first = (key.at(offset.builder.constant(k, dtypes.index)) for k in (0, 1))
    return Source(seed, first + offset)


def _units(key: Key, element: DType, bits: int, *, shape: Any, offset: Any, word: int = -1) -> Any:
    """Numbers in [0, 1) from so many bits, in the dtype that such elements are computed in."""
    words, size = ("u64", 64) if element is dtypes.f64 else ("u32", 32)
    drawn = random_words(key.words, shape=shape, offset=offset, word=word, dtype=words)
    return (drawn >> (size - bits)).astype(element.computed) * 2.0**-bits


def _uniform_parts(operation, *, shape, low, high, seed, offset, dtype):
    if not isinstance(seed, Key):
        return None
    element = dtypes.dtype(dtype)
    drawn = _units(seed, element, bits_of(element), shape=shape, offset=offset)
    return (low + drawn * (high - low)).astype(element, copy=False)


def _normal_parts(operation, *, shape, mean, std, seed, offset, dtype):
    if not isinstance(seed, Key):
        return None
    element = dtypes.dtype(dtype)
    bits = _normal_bits(element)
    first, second = (_units(seed, element, bits, shape=shape, offset=offset, word=k) for k in (0, 1))
    radius = sqrt(-2.0 * log(first + 2.0**-bits))
    return (mean + std * (radius * cos(second * (2.0 * math.pi)))).astype(element, copy=False)


def _dropout_parts(operation, x, *, p, seed, offset):
    if not isinstance(seed, Key):
        return None
    keep = _units(seed, dtypes.f32, 24, shape=x.shape, offset=offset) >= p
    return where(keep, x * (1.0 / (1.0 - p) if p < 1 else 0.0), 0.0)


# Attributes that are passed at launch, and as what: None is the dtype computed in.
PARAMETERS: dict[str, DType | None] = {
    "seed": u64, "offset": u64, "low": None, "high": None, "mean": None, "std": None, "p": None,
}  # fmt: skip


@indexed(shape_of=_shape_of, dtypes=FLOATS, scalars=PARAMETERS, samples=_random_samples(low=-2.0, high=3.0),
         ulp=2, absolute=4.0,
         reference=_uniform_reference, methods=False, parts=_uniform_parts)  # fmt: skip
def random_uniform(
    at, *, shape, low: Any = 0.0, high: Any = 1.0, seed: Any = 0, offset: Any = 0, dtype="f32"
):
    """Floats in [low, high), 2^24 different ones (f64 2^53, f16 2^11, bf16 2^8). Seeds and offsets have 64 bits."""
    source, element, result = Source(seed, offset), linear(at), dtypes.dtype(dtype)
    if result is dtypes.f64:
        return low + fine_unit(*source.pair(element)) * (high - low)
    return low + unit(source.word(element), low.dtype, bits_of(result)) * (high - low)


def _normal_bits(dtype: DType) -> int:
    """Narrow dtypes are computed in f32."""
    return bits_of(dtype.computed)


def _normal_reference(shape, mean=0.0, std=1.0, seed=0, offset=0, dtype="f32"):
    a, b, c, d = blocks_reference(math.prod(shape), seed, offset).T
    element = dtypes.dtype(dtype)
    first, second = (units_reference(*x[: 1 + (element is dtypes.f64)]) for x in ((a, c), (b, d)))
    radius = np.sqrt(-2 * np.log(first + 2.0 ** -_normal_bits(element)))
    return mean + std * (radius * np.cos(2 * np.pi * second)).reshape(shape)


@indexed(shape_of=_normal_shape, dtypes=FLOATS, scalars=PARAMETERS, samples=_random_samples(mean=1.0, std=2.0),
         ulp=8, absolute=64.0,
         reference=_normal_reference, methods=False, parts=_normal_parts)  # fmt: skip
def random_normal(at, *, shape, mean: Any = 0.0, std: Any = 1.0, seed: Any = 0, offset: Any = 0, dtype="f32"):
    """Normally distributed floats (Box, Muller 1958); element i uses the block whose counter is offset + i."""
    a, b, c, d = Source(seed, offset).block(linear(at))
    if mean.dtype is dtypes.f64:
        first, second = fine_unit(a, c), fine_unit(b, d)
    else:
        first, second = unit(a, mean.dtype), unit(b, mean.dtype)
    radius = atlas.sqrt(-2.0 * atlas.log(first + 2.0 ** -bits_of(mean.dtype)))
    return mean + std * (radius * atlas.cos(second * (2.0 * math.pi)))


def _dropout_reference(x, p=0.5, seed=0, offset=0):
    unit = units_reference(_words_reference(np.size(x), seed, offset))
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
    keep = unit(Source(seed, offset).word(linear(at)), p.dtype) >= p
    return select(keep, x.at(*at) * (1.0 / (1.0 - p)), 0.0)
