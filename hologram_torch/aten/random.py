"""Random numbers: from Philox streams on the device, which torch.manual_seed starts anew."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import hologram as hg
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.frontend.tensor import Tensor
from hologram.opset.random import Key
from hologram_torch.aten.indexing.positions import refuse
from hologram_torch.device.generator import draw
from hologram_torch.kernels.registry import register
from hologram_torch.kernels.results import write
from hologram_torch.tensors.memory import hologram_tensor, torch_tensor

Generator = torch.Generator | None


def uniform(like: torch.Tensor, generator: Generator, dtype: DType | None = None) -> Tensor:
    """Numbers in [0, 1) in the shape of a tensor, beside it; of 53 bits for f64, else of 24 where no dtype is named."""
    dtype = dtype or _computed(like)
    executor = hologram_tensor(like).executor
    seed, offset = draw(like.device.index, max(like.numel(), 1), generator)
    return hg.random_uniform(executor, shape=tuple(like.shape), seed=seed, offset=offset, dtype=dtype)


def keyed(like: torch.Tensor, count: int, generator: Generator) -> tuple[Tensor, int]:
    """A key beside a tensor, and where `count` numbers of it begin that nobody draws else."""
    seed, offset = draw(like.device.index, max(count, 1), generator)
    if isinstance(seed, Key):
        return seed.words, offset
    return hologram_tensor(like).executor.tensor(np.array([seed, offset], np.uint64)), 0


def positive(like: torch.Tensor, generator: Generator) -> Tensor:
    """Numbers in (0, 1]."""
    return hg.subtract(1.0, uniform(like, generator))


def normal(like: torch.Tensor, generator: Generator) -> Tensor:
    """Numbers of mean 0 and deviation 1."""
    executor = hologram_tensor(like).executor
    seed, offset = draw(like.device.index, max(like.numel(), 1), generator)
    return hg.random_normal(
        executor, shape=tuple(like.shape), seed=seed, offset=offset, dtype=_computed(like)
    )


def _computed(like: torch.Tensor) -> DType:
    return dtypes.f64 if like.dtype == torch.float64 else dtypes.f32


def _normal_parts(x: torch.Tensor, mean: float = 0.0, std: float = 1.0, **rest: Any) -> torch.Tensor:
    """Each part has half of the variance."""
    return x.normal_(mean, std * math.sqrt(0.5), **rest)


# What of a complex tensor the numbers are that its parts are.
OF_PARTS: dict[str, Callable[..., torch.Tensor]] = {
    "uniform_": torch.Tensor.uniform_,
    "normal_": _normal_parts,
}


def filled(
    name: str, check: Callable[..., str | None]
) -> Callable[[Callable[..., Tensor]], Callable[..., Any]]:
    """Registers what overwrites a tensor with random numbers; `check` says what is wrong with its parameters."""

    def declare(drawn: Callable[..., Tensor]) -> Callable[..., Any]:
        def kernel(x: torch.Tensor, *args: Any, generator: Generator = None, **named: Any) -> torch.Tensor:
            if x.is_complex() and name in OF_PARTS:
                OF_PARTS[name](torch.view_as_real(x), *args, generator=generator, **named)
                return x
            wrong = check(x, *args, *named.values())
            if wrong is not None:
                kind = NotImplementedError if wrong == _floats(x) else RuntimeError
                raise kind(f"hologram, {name.partition('.')[0]}: {wrong}")
            if x.numel():
                write(drawn(x, *args, generator=generator, **named), hologram_tensor(x))
            return x

        register(name, kernel)
        return drawn

    return declare


def _floats(x: torch.Tensor) -> str | None:
    return None if x.is_floating_point() else f"expected a floating point dtype, got {x.dtype}"


def _uniform_range(x: torch.Tensor, low: float = 0.0, high: float = 1.0) -> str | None:
    if low > high:
        return f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}"
    return _floats(x)


@filled("uniform_", _uniform_range)
def uniform_(
    x: torch.Tensor, low: float = 0.0, high: float = 1.0, *, generator: Generator, **named: float
) -> Tensor:
    low, high = named.get("from", low), named.get("to", high)
    own = hologram_tensor(x).dtype
    return uniform(x, generator, own) * (high - low) + low


def _deviation(x: torch.Tensor, mean: float = 0.0, std: float = 1.0) -> str | None:
    return f"normal expects std >= 0.0, but found std {std}" if not std >= 0 else _floats(x)


@filled("normal_", _deviation)
def normal_(x: torch.Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator) -> Tensor:
    return normal(x, generator) * std + mean


@filled(
    "log_normal_",
    lambda x, mean=1.0, std=2.0: None if std > 0 else f"log_normal_ expects std > 0.0, but found std={std}",
)
def log_normal_(x: torch.Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator) -> Tensor:
    return hg.exp(normal(x, generator) * std + mean)


@filled(
    "cauchy_",
    lambda x, median=0.0, sigma=1.0: (
        _floats(x) if sigma > 0 else f"cauchy_ expects sigma > 0.0, but found sigma={sigma}"
    ),
)
def cauchy_(x: torch.Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator) -> Tensor:
    return hg.tan((uniform(x, generator) - 0.5) * math.pi) * sigma + median


@filled(
    "exponential_",
    lambda x, lambd=1.0: (
        _floats(x) if lambd > 0 else f"exponential_ expects lambda > 0.0, but found lambda={lambd}"
    ),
)
def exponential_(x: torch.Tensor, lambd: float = 1.0, *, generator: Generator) -> Tensor:
    return hg.abs(hg.log(positive(x, generator))) * (1.0 / lambd)


@filled(
    "geometric_", lambda x, p: None if 0 < p < 1 else f"geometric_ expects p to be in (0, 1), but got p={p}"
)
def geometric_(x: torch.Tensor, p: float, *, generator: Generator) -> Tensor:
    numbers = hg.ceil(hg.log(positive(x, generator)) * (1.0 / math.log1p(-p)))
    return hg.maximum(numbers, 1.0)


@filled(
    "bernoulli_.float",
    lambda x, p=0.5: None if 0 <= p <= 1 else f"bernoulli_ expects p to be in [0, 1], but got p={p}",
)
def bernoulli_(x: torch.Tensor, p: float = 0.5, *, generator: Generator) -> Tensor:
    return hg.less(uniform(x, generator), float(p))


def _probabilities(p: torch.Tensor) -> Tensor:
    if not p.is_floating_point():
        raise NotImplementedError(
            f"hologram, bernoulli: expected probabilities tensor to have floating type, got {p.dtype}"
        )
    tensor = hologram_tensor(p)
    inside = hg.logical_and(hg.greater_equal(tensor, 0.0), hg.less_equal(tensor, 1.0))  # NaN is not
    refuse("bernoulli", hg.any(hg.logical_not(inside)), "probabilities must lie within [0, 1]")
    return tensor.astype(_computed(p), copy=False)


@filled("bernoulli_.Tensor", lambda x, p: None)
def bernoulli_by(x: torch.Tensor, p: torch.Tensor, *, generator: Generator) -> Tensor:
    return hg.less(uniform(x, generator), _probabilities(p.to(x.device)))


def _bernoulli(x: torch.Tensor, p: Any = None, *, generator: Generator = None) -> torch.Tensor:
    result = torch.empty_like(x, memory_format=torch.contiguous_format)
    return result.bernoulli_(x if p is None else p, generator=generator)


register("bernoulli", _bernoulli)
register("bernoulli.p", _bernoulli)
register(
    "bernoulli.out",
    lambda x, *, generator=None, out: out.resize_(x.shape).copy_(_bernoulli(x, generator=generator)),
)


# Integers.

WIDE = 1 << 24  # spans from here on take more bits than a number in [0, 1) of f32 has


def _highest(x: torch.Tensor) -> int:
    """The largest integer that is drawn where no bound is named: floats hold all up to there."""
    own = hologram_tensor(x).dtype
    return int(2 / torch.finfo(x.dtype).eps) if own.is_float else own.highest


@filled("random_", lambda x: None)
def random_(x: torch.Tensor, *, generator: Generator) -> Tensor:
    return _integers(x, 0, _highest(x) + 1, generator)


def _range(x: torch.Tensor, low: int, high: int | None = None, **rest: Any) -> str | None:
    low, high = (0, low) if high is None else (low, high)
    if low >= high:
        return f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
    wrong = _outside(x, "from", low) or _outside(x, "to - 1", high - 1)
    if wrong is None and operator.ge(*_held_bounds(x, low, high)):
        wrong = f"{x.dtype} holds no number from {low} to below {high}"
    return wrong


def _outside(x: torch.Tensor, name: str, value: int) -> str | None:
    held = torch.finfo(x.dtype) if x.is_floating_point() else hologram_tensor(x).dtype
    least, most = (held.min, held.max) if isinstance(held, torch.finfo) else (held.lowest, held.highest)
    return None if least <= value <= most else f"{name} is out of bounds for {x.dtype}, got {value}"


def _from(x: torch.Tensor, low: int, high: int | None = None) -> str | None:
    if high is not None:
        return _range(x, low, high)
    if low == -(1 << 63) and x.dtype in _OF_64_BITS:
        return None
    return _range(x, low, _highest(x) + 1)


_OF_64_BITS = (torch.int64, torch.float64, torch.float32, torch.bfloat16)  # that hold numbers down to -2^63


@filled("random_.to", _range)
def random_to(x: torch.Tensor, to: int, *, generator: Generator) -> Tensor:
    return _integers(x, 0, to, generator)


@filled("random_.from", _from)
def random_from(
    x: torch.Tensor, low: int, high: int | None = None, *, generator: Generator, **named: Any
) -> Tensor:
    if high is None:
        high = 1 << 63 if low == -(1 << 63) else _highest(x) + 1
    return _integers(x, low, high, generator)


def _integers(x: torch.Tensor, low: int, high: int, generator: Generator) -> Tensor:
    """Integers in [low, high), as i64 or u64, that the tensor's dtype holds."""
    low, high = _held_bounds(x, low, high)
    span = high - low
    if span <= WIDE:
        drawn = hg.floor(uniform(x, generator) * float(span)).astype("i64")
        return hg.minimum(drawn, span - 1) + low
    key, offset = keyed(x, x.numel(), generator)
    below = hg.random_below(key, shape=tuple(x.shape), span=span % (1 << 64), offset=offset)
    return below if high > 1 << 63 else below.astype("i64") + low


def _held_bounds(x: torch.Tensor, low: int, high: int) -> tuple[int, int]:
    """Bounds between which no integer is rounded to one outside, where a tensor is of floats."""
    if not x.is_floating_point():
        return low, high
    digits = _highest(x).bit_length() - 1
    return -_held(-low, digits), _held(high - 1, digits) + 1


def _held(value: int, digits: int) -> int:
    """The largest number up to an integer that a float of so many binary digits holds."""
    spare = max(abs(value).bit_length() - digits, 0)
    return value >> spare << spare


# Normal numbers with tensors of parameters.


def _normal(mean: Any, std: Any = 1.0, *, generator: Generator = None) -> torch.Tensor:
    given = [v for v in (mean, std) if isinstance(v, torch.Tensor)]
    if isinstance(std, (int, float)) and not std >= 0:
        raise RuntimeError(f"hologram, normal: normal expects std >= 0.0, but found std {std}")
    if isinstance(std, torch.Tensor) and std.numel() and bool((std < 0).any()):
        raise RuntimeError("hologram, normal: normal expects all elements of std >= 0.0")
    shape = torch.broadcast_shapes(*(v.shape for v in given))
    numbers = torch.empty(shape, dtype=given[0].dtype, device=given[0].device).normal_(generator=generator)
    return numbers.mul_(std).add_(mean)


def _normal_out(mean: Any, std: Any = 1.0, *, generator: Generator = None, out: torch.Tensor) -> torch.Tensor:
    numbers = _normal(mean, std, generator=generator)
    return out.resize_(numbers.shape).copy_(numbers)


for _form in ("Tensor_float", "float_Tensor", "Tensor_Tensor"):
    register(f"normal.{_form}", _normal)
    register(f"normal.{_form}_out", _normal_out)


# Choices.


def _randperm(n: int, *, generator: Generator = None, out: torch.Tensor) -> torch.Tensor:
    """The order of random keys."""
    if n < 0:
        raise RuntimeError(f"hologram, randperm: n must be non-negative, got {n}")
    out.resize_((n,))
    if n:
        words = _integers(torch.empty(n, dtype=torch.int64, device=out.device), 0, 1 << 62, generator)
        write(hg.argsort(words, axis=0), hologram_tensor(out))
    return out


register("randperm.out", lambda n, *, out: _randperm(n, out=out))
register("randperm.generator_out", _randperm)


def _multinomial(
    x: torch.Tensor, num_samples: int, replacement: bool = False, *, generator: Generator = None
) -> torch.Tensor:
    """Positions drawn with the rows' weights: by the running sums, or the largest keys weight / exponential number."""
    largest = _weights(x, num_samples, replacement).astype(_computed(x), copy=False)
    own = (
        hologram_tensor(x).astype(_computed(x), copy=False) / largest
    )  # so that sums and quotients are numbers
    if not replacement:
        noise = hg.abs(hg.log(positive(x, generator)))
        keys = hg.where(hg.greater(own, 0.0), own / noise, -1.0)
        return torch_tensor(hg.topk(keys, k=num_samples, axis=-1)[1])
    sums = hg.cumsum(own, axis=-1)
    total = sums.narrow(-1, x.shape[-1] - 1, 1)
    wanted = uniform(x.new_empty((*x.shape[:-1], num_samples)), generator) * total
    return torch_tensor(hg.minimum(hg.searchsorted(sums, wanted, side="right"), x.shape[-1] - 1))


def _weights(x: torch.Tensor, num_samples: int, replacement: bool) -> Tensor:
    """The largest of each row's weights; raises RuntimeError where they are none."""
    wrong = None
    if not x.is_floating_point():
        wrong = f"multinomial only supports floating-point dtypes for input, got: {x.dtype}"
    elif x.ndim not in (1, 2):
        wrong = "prob_dist must be 1 or 2 dim"
    elif not x.shape[-1]:
        wrong = f"there must be something to choose from, got weights of shape {tuple(x.shape)}"
    elif num_samples <= 0:
        wrong = "cannot sample n_sample <= 0 samples"
    elif not replacement and num_samples > x.shape[-1]:
        wrong = "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
    if wrong is not None:
        raise RuntimeError(f"hologram, multinomial: {wrong}")
    given = hologram_tensor(x)
    fits = hg.logical_and(hg.greater_equal(given, 0.0), hg.isfinite(given))
    words = "probability tensor contains either `inf`, `nan` or element < 0"
    refuse("multinomial", hg.logical_not(hg.all(fits)), words)
    largest = hg.max(given, axis=-1, keepdims=True)
    words = "invalid multinomial distribution (sum of probabilities <= 0)"
    refuse("multinomial", hg.any(hg.less_equal(largest, 0.0)), words)
    return largest


register("multinomial", _multinomial)
register(
    "multinomial.out",
    lambda x, num_samples, replacement=False, *, generator=None, out: _copied(
        out, _multinomial(x, num_samples, replacement, generator=generator)
    ),
)


def _copied(out: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
    if out.dtype != samples.dtype:
        raise RuntimeError(f"hologram, multinomial: expects Long tensor out, got: {out.dtype}")
    return out.resize_(samples.shape).copy_(samples)
