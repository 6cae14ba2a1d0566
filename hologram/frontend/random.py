"""hg.random: random numbers of keys, which are data: the same on every backend, in hg.jit and loops too.

A key is a tensor of two u64, the seed and where its numbers begin: the counter-based generator is that of
hg.random_normal, whose numbers for a seed are those of `key(seed)`. Names and signatures are those of jax.random. The
same key gives the same numbers: take each once, and `split` it for more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hologram import opset as _opset
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.frontend import tensor as _tensors
from hologram.frontend.jit.number import TracedNumber as _TracedNumber
from hologram.frontend.tensor import Tensor
from hologram.frontend.truncated import truncated as _truncated
from hologram.machine.axes import normalize_axis as _normalize_axis
from hologram.opset.forms.default import Default as _Default
from hologram.opset.random import random_below as _random_below
from hologram.opset.random import random_words as _random_words
from hologram.opset.sampling import random_binomial as _random_binomial
from hologram.opset.sampling import random_gamma as _random_gamma
from hologram.opset.sampling import random_poisson as _random_poisson
from hologram.runtime.dispatch import tracing as _tracing
from hologram.runtime.launches.validation import sizes as _sizes

Shape = int | Sequence[int]
_SPLIT, _FOLDED = 1 << 63, 1 << 62  # where in a key's numbers those begin that make other keys
_ops = _opset.OPERATIONS

__all__ = [
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "choice",
    "dirichlet",
    "exponential",
    "fold_in",
    "gamma",
    "gumbel",
    "key",
    "laplace",
    "logistic",
    "normal",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "split",
    "truncated_normal",
    "uniform",
]


# Keys.


def key(seed: Any, *, device: Any = None) -> Tensor:
    """The key of a seed: an integer, also a tensor's; of all 64 bits. In hg.jit it may be another at each call."""
    if isinstance(seed, Tensor):
        first = seed.astype(dtypes.u64).reshape(1)
    else:
        if isinstance(seed, bool) or not (isinstance(seed, int) or hasattr(seed, "__index__")):
            raise TypeError(f"random.key: the seed must be an integer, got {seed!r}")
        tracer = _tracing()
        engine = tracer.executor if tracer is not None and device is None else _Default.executor(device)
        number = seed if isinstance(seed, _TracedNumber) else int(seed)
        if not isinstance(number, _TracedNumber) and not -(1 << 63) <= number < 1 << 64:
            raise ValueError(f"random.key: the seed must have 64 bits, got {number}")
        first = _tensors.full(engine, (1,), number % (1 << 64), dtypes.u64)
    return _of(first, first * 0)


def split(key: Tensor, num: int = 2) -> Tensor:
    """`num` keys of one, as rows."""
    (count,) = _sizes(num, "random.split")
    _, first = _checked(key, "split")
    seeds = _random_words(_moved(key, first + _SPLIT), shape=(count,), dtype="u64")
    return _ops["stack"]([seeds, seeds * 0], axis=1)


def fold_in(key: Tensor, data: Any) -> Tensor:
    """The key of a key and a number of 32 bits, which may be a tensor's, as that of a loop's turn."""
    _, first = _checked(key, "fold_in")
    if isinstance(data, Tensor):
        number = data.astype(dtypes.u32).astype(dtypes.u64).reshape(1)
    else:
        number = data % (1 << 32)
    seed = _random_words(_moved(key, first + _FOLDED + number), shape=(1,), dtype="u64")
    return _of(seed, seed * 0)


# Numbers.


def bits(key: Tensor, shape: Shape = (), dtype: Any = dtypes.u32) -> Tensor:
    """Random integers of all bits of u32 or u64."""
    return _words(key, shape, dtypes.dtype(dtype), "bits")


def uniform(
    key: Tensor, shape: Shape = (), dtype: Any = dtypes.f32, minval: Any = 0.0, maxval: Any = 1.0
) -> Tensor:
    """Floats in [minval, maxval), 2^24 different ones (f64 2^53)."""
    element = _float(dtype, "uniform")
    unit = _unit(key, shape, element, "uniform")
    if isinstance(minval, float) and isinstance(maxval, float) and (minval, maxval) == (0.0, 1.0):
        return unit
    return (unit * (maxval - minval) + minval).astype(element, copy=False)


def normal(key: Tensor, shape: Shape = (), dtype: Any = dtypes.f32) -> Tensor:
    """Floats of mean 0 and variance 1 (Box, Muller 1958): those of hg.random_normal for the seed."""
    element = _float(dtype, "normal")
    count = _digits(element)
    first, second = (_unit(key, shape, element.computed, "normal", word=k) for k in (0, 1))
    radius = _ops["sqrt"](_ops["log"](first + 2.0**-count) * -2.0)
    return (radius * _ops["cos"](second * (2.0 * math.pi))).astype(element, copy=False)


def randint(key: Tensor, shape: Shape, minval: Any, maxval: Any, dtype: Any = dtypes.i32) -> Tensor:
    """Integers in [minval, maxval), which may be tensors; all are equally likely to 2^-32.

    Numbers may be any of 64 bits. From bounds that are tensors' come i64, of fewer than 2^63.
    """
    element = dtypes.dtype(dtype)
    if not element.is_integer:
        raise UnsupportedDType(f"random.randint: integers are made, got {element}")
    if not isinstance(minval, Tensor) and not isinstance(maxval, Tensor):
        span = max(int(maxval - minval), 1)
        return (_below(key, shape, span).astype(dtypes.i64) + _signed(minval)).astype(element)
    low, high = (x.astype(dtypes.i64) if isinstance(x, Tensor) else x for x in (minval, maxval))
    span = _ops["maximum"](high - low, 1).astype(dtypes.u64)
    return ((_words(key, shape, dtypes.u64, "randint") % span).astype(dtypes.i64) + low).astype(element)


def _below(key: Tensor, shape: Shape, span: int) -> Tensor:
    """Integers in [0, span), as u64."""
    if span <= 1 << 32:
        return _words(key, shape, dtypes.u64, "randint") % span
    _checked(key, "randint")
    return _random_below(key, shape=_sizes(shape, "random.randint"), span=span % (1 << 64))


def _signed(number: Any) -> Any:
    """A number of 64 bits as the i64 that has the same bits."""
    return number - (1 << 64) if number >= 1 << 63 else number


def bernoulli(key: Tensor, p: Any = 0.5, shape: Shape | None = None) -> Tensor:
    """True with probability p, whose shape is the default."""
    return _unit(key, _shape(shape, p), dtypes.f32, "bernoulli") < p


def rademacher(key: Tensor, shape: Shape = (), dtype: Any = dtypes.i32) -> Tensor:
    """1 or -1, equally likely."""
    return ((_words(key, shape, dtypes.u32, "rademacher") & 1).astype(dtypes.i32) * 2 - 1).astype(dtype)


def truncated_normal(
    key: Tensor, lower: Any, upper: Any, shape: Shape | None = None, dtype: Any = dtypes.f32
) -> Tensor:
    """Normal floats between two bounds, which they do not reach where there are several others; NaN for crossed."""
    element = _float(dtype, "truncated_normal")
    low, high = (_like(key, x, element) for x in (lower, upper))
    unit = _open(key, _shape(shape, lower, upper), element, "truncated_normal")
    return _truncated(low, high, unit, lower, upper)


def exponential(key: Tensor, shape: Shape = (), dtype: Any = dtypes.f32) -> Tensor:
    """Floats of the exponential distribution of rate 1."""
    element = _float(dtype, "exponential")
    return (-_ops["log"](_open(key, shape, element, "exponential"))).astype(element, copy=False)


def gumbel(key: Tensor, shape: Shape = (), dtype: Any = dtypes.f32) -> Tensor:
    """Floats of the Gumbel distribution."""
    element = _float(dtype, "gumbel")
    return (-_ops["log"](-_ops["log"](_open(key, shape, element, "gumbel")))).astype(element, copy=False)


def laplace(key: Tensor, shape: Shape = (), dtype: Any = dtypes.f32) -> Tensor:
    """Floats of the Laplace distribution of scale 1."""
    element = _float(dtype, "laplace")
    centred = _open(key, shape, element, "laplace") * 2.0 - 1.0
    return (-_ops["sign"](centred) * _ops["log1p"](-_ops["abs"](centred))).astype(element, copy=False)


def logistic(key: Tensor, shape: Shape = (), dtype: Any = dtypes.f32) -> Tensor:
    """Floats of the logistic distribution."""
    element = _float(dtype, "logistic")
    unit = _open(key, shape, element, "logistic")
    return _ops["log"](unit / (1.0 - unit)).astype(element, copy=False)


def cauchy(key: Tensor, shape: Shape = (), dtype: Any = dtypes.f32) -> Tensor:
    """Floats of the Cauchy distribution."""
    element = _float(dtype, "cauchy")
    made = _ops["tan"]((_open(key, shape, element, "cauchy") - 0.5) * math.pi)
    return _ops["clip"](made, -element.largest, element.largest).astype(element, copy=False)


def gamma(key: Tensor, a: Any, shape: Shape | None = None, dtype: Any = dtypes.f32) -> Tensor:
    """Floats of the gamma distribution of shapes `a` and scale 1 (Marsaglia, Tsang 2000)."""
    return _random_gamma(_spread(key, a, shape, dtype, "gamma"), key)


def beta(key: Tensor, a: Any, b: Any, shape: Shape | None = None, dtype: Any = dtypes.f32) -> Tensor:
    """Floats of the beta distribution; NaN for parameters below 0, and where all are 0 or infinite."""
    keys, wide = split(key), _shape(shape, a, b)
    (x, p), (y, q) = (_gamma_parts(keys[k], x, wide, dtype, "beta") for k, x in enumerate((a, b)))
    most = _ops["maximum"](p, q)
    x, y = x * _ops["exp"](p - most), y * _ops["exp"](q - most)
    return (1.0 / (1.0 + y / x)).astype(dtype, copy=False)


def _gamma_parts(key: Tensor, a: Any, shape: Shape, dtype: Any, who: str) -> tuple[Tensor, Tensor]:
    """Floats x and y, of which x exp(y) are those of `gamma`, in the dtype that such are computed in.

    For small shapes these are too small for a dtype, and y is not (Marsaglia, Tsang 2000, section 6).
    """
    element = _float(dtype, who).computed
    shapes = _spread(key, a, shape, element, who)
    small, some = shapes < 1.0, shapes > 0.0
    unit = 1.0 - _unit(key, shapes.shape, element, who, word=0)
    power = _ops["log"](unit) / _ops["where"](small, shapes, 1.0)
    power = _ops["where"](some, _ops["where"](small, power, 0.0), -math.inf)
    power = _ops["maximum"](power, -element.largest / 4)  # which may be subtracted
    return _random_gamma(
        _ops["where"](small & some, shapes + 1.0, shapes), key
    ), power  # of 0 is 0, of less NaN


def dirichlet(key: Tensor, alpha: Tensor, shape: Shape | None = None, dtype: Any = dtypes.f32) -> Tensor:
    """Floats of the Dirichlet distribution along a last axis as that of `alpha`, without which `shape` is; see beta."""
    outer = tuple(alpha.shape[:-1]) if shape is None else _sizes(shape, "random.dirichlet")
    x, power = _gamma_parts(key, alpha, (*outer, alpha.shape[-1]), dtype, "dirichlet")
    x = x * _ops["exp"](power - _ops["max"](power, axis=-1, keepdims=True))
    return (x / _ops["sum"](x, axis=-1, keepdims=True)).astype(dtype, copy=False)


def poisson(key: Tensor, lam: Any, shape: Shape | None = None, dtype: Any = dtypes.i32) -> Tensor:
    """How many events happen where `lam` are expected."""
    return _random_poisson(_spread(key, lam, shape, dtypes.f32, "poisson"), key).astype(dtype)


def binomial(key: Tensor, n: Any, p: Any, shape: Shape | None = None, dtype: Any = dtypes.f32) -> Tensor:
    """How many of n trials succeed, each with probability p."""
    wide = _shape(shape, n, p)
    counts, chances = (_spread(key, x, wide, dtype, "binomial") for x in (n, p))
    return _random_binomial(counts, chances, key)


# Choices.


def permutation(key: Tensor, x: Any, axis: int = 0, independent: bool = False) -> Tensor:
    """x in another order along an axis, of an integer the positions below it; `independent`: another for each row."""
    if not isinstance(x, Tensor):
        (count,) = _sizes(x, "random.permutation")
        return _ops["argsort"](_words(key, (count,), dtypes.u64, "permutation")).astype(dtypes.i32)
    if independent:
        order = _ops["argsort"](_words(key, x.shape, dtypes.u64, "permutation"), axis=axis)
        return _ops["take_along_axis"](x, order, axis=axis)
    axis = _normalize_axis(axis, x.ndim, "random.permutation")
    order = _ops["argsort"](_words(key, (x.shape[axis],), dtypes.u64, "permutation"))
    return _ops["take"](x, order, axis=axis)


def choice(
    key: Tensor, a: Any, shape: Shape = (), replace: bool = True, p: Tensor | None = None, axis: int = 0
) -> Tensor:
    """Slices of a along an axis, of an integer positions below it, `p` with these probabilities.

    Raises ShapeError where there are fewer than are to be chosen without replacing, or p has another length.
    """
    sizes = _sizes(shape, "random.choice")
    count, needed = (a.shape[axis] if isinstance(a, Tensor) else int(a)), math.prod(sizes)
    if p is not None and p.shape != (count,):
        raise ShapeError(
            f"random.choice: p must have one probability for each of {count}, got shape {p.shape}"
        )
    if needed and (not count or (not replace and needed > count)):
        raise ShapeError(
            f"random.choice: {needed} of {count} cannot be chosen{'' if replace else ' without replacing'}"
        )
    if p is None:
        at = randint(key, (needed,), 0, count) if replace else permutation(key, count)[:needed]
    elif replace:
        sums = _ops["cumsum"](p.astype(p.dtype.computed, copy=False), axis=0)
        at = _ops["searchsorted"](sums, _unit(key, (needed,), sums.dtype, "choice") * sums[-1], side="right")  # type: ignore[index]
        at = _ops["minimum"](at, count - 1)
    else:
        wide = p.dtype.computed
        order = gumbel(key, (count,), wide) + _ops["log"](p.astype(wide, copy=False))
        at = _ops["argsort"](order, descending=True)[:needed]
    at = at.astype(dtypes.i32).reshape(sizes)
    return _ops["take"](a, at, axis=axis) if isinstance(a, Tensor) else at


def categorical(key: Tensor, logits: Tensor, axis: int = -1, shape: Shape | None = None) -> Tensor:
    """Positions along an axis, with the probabilities that softmax makes of the logits there.

    `shape` is that of the result, and ends with that of the logits without the axis.
    """
    if not isinstance(logits, Tensor):
        raise TypeError(f"random.categorical: the logits must be a Tensor, got {type(logits).__name__}")
    place = _normalize_axis(axis, logits.ndim, "random.categorical")
    rest = (*logits.shape[:place], *logits.shape[place + 1 :])
    wide = rest if shape is None else _sizes(shape, "random.categorical")
    lead = wide[: len(wide) - len(rest)]
    if (*lead, *rest) != wide:
        raise ShapeError(f"random.categorical: the shape must end with {rest}, got {wide}")
    noise = gumbel(key, (*lead, *logits.shape), logits.dtype.computed)
    return _ops["argmax"](noise + logits, axis=place + len(lead)).astype(dtypes.i32)


# What they are made of.


def _checked(key: Any, who: str) -> tuple[Tensor, Tensor]:
    """The two halves of a key."""
    if not isinstance(key, Tensor) or key.shape != (2,) or key.dtype is not dtypes.u64:
        got = f"{key.dtype} of shape {key.shape}" if isinstance(key, Tensor) else repr(key)
        raise ShapeError(f"random.{who}: a key is two u64 (hg.random.key makes one), got {got}")
    return key[:1], key[1:]


def _of(seed: Tensor, first: Tensor) -> Tensor:
    return _ops["concat"]([seed, first])


def _moved(key: Tensor, first: Tensor) -> Tensor:
    """A key whose numbers begin elsewhere."""
    return _of(key[:1], first)


def _words(key: Tensor, shape: Shape, dtype: DType, who: str, word: int = -1) -> Tensor:
    _checked(key, who)
    return _random_words(key, shape=_sizes(shape, f"random.{who}"), word=word, dtype=dtype.name)


def _digits(dtype: DType) -> int:
    return min(dtype.computed.digits, 53)


def _unit(key: Tensor, shape: Shape, dtype: DType, who: str, word: int = -1) -> Tensor:
    """Floats in [0, 1)."""
    words, size = (dtypes.u64, 64) if dtype is dtypes.f64 else (dtypes.u32, 32)
    count = min(dtype.digits, 53)
    return (
        (_words(key, shape, words, who, word) >> (size - count)).astype(dtype.computed) * 2.0**-count
    ).astype(dtype, copy=False)


def _open(key: Tensor, shape: Shape, dtype: DType, who: str) -> Tensor:
    """Floats in (0, 1), in the middle of equal parts of it, in the dtype that such are computed in."""
    words, size = (dtypes.u64, 64) if dtype is dtypes.f64 else (dtypes.u32, 32)
    count = _digits(dtype) - 1
    drawn = (_words(key, shape, words, who) >> (size - count)).astype(dtype.computed)
    return (drawn + 0.5) * 2.0**-count


def _float(dtype: Any, who: str) -> DType:
    element = dtypes.dtype(dtype)
    if not element.is_float:
        raise UnsupportedDType(f"random.{who}: floats are made, got {element}")
    return element


def _shape(shape: Shape | None, *parameters: Any) -> tuple[int, ...]:
    """A shape, or that which parameters broadcast to."""
    if shape is not None:
        return _sizes(shape, "random: a shape")
    found: tuple[int, ...] = ()
    for x in parameters:
        own = tuple(getattr(x, "shape", ()))
        width = max(len(found), len(own))
        pairs = zip((1,) * (width - len(found)) + found, (1,) * (width - len(own)) + own, strict=True)
        found = tuple(b if a == 1 else a for a, b in pairs)
    return found


def _like(key: Tensor, x: Any, dtype: DType) -> Tensor:
    """A parameter as a tensor."""
    return x.astype(dtype, copy=False) if isinstance(x, Tensor) else _tensors.full(key.executor, (), x, dtype)


def _spread(key: Tensor, x: Any, shape: Shape | None, dtype: Any, who: str) -> Tensor:
    _checked(key, who)
    return _like(key, x, _float(dtype, who)).expand(_shape(shape, x)).contiguous()
