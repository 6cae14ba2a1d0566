"""Random numbers of distributions whose parameters are tensors, and derivatives by these.

The derivatives are approximated as PyTorch does (ATen/native/Distributions.h).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import hologram as hg
from hologram.foundation import dtypes
from hologram.frontend.tensor import Tensor
from hologram_torch.aten.indexing.positions import refuse
from hologram_torch.aten.random import keyed
from hologram_torch.kernels.fused import fused
from hologram_torch.kernels.registry import implements, register
from hologram_torch.tensors.memory import hologram_tensor, torch_tensor

Generator = torch.Generator | None


def drawn(
    name: str, sample: Callable[..., Tensor], parameters: Sequence[torch.Tensor], generator: Generator
) -> Tensor:
    """Numbers for parameters of one shape, which have to be floats; narrow ones are computed in f32."""
    first = parameters[0]
    if not first.is_floating_point():
        raise NotImplementedError(f"hologram, {name}: not implemented for {first.dtype}")
    if any(x.dtype != first.dtype or x.device != first.device for x in parameters):
        kinds = " and ".join(f"{x.dtype} on {x.device}" for x in parameters)
        raise RuntimeError(
            f"hologram, {name}: parameters must be of one dtype and on one device, got {kinds}"
        )
    own = hg.broadcast_arrays(*map(hologram_tensor, parameters))
    key, offset = keyed(first, own[0].size, generator)
    wide = [x.astype(x.dtype.computed, copy=False) for x in own]
    return sample(*wide, key, offset=offset).astype(own[0].dtype, copy=False)


def above_zero(x: Tensor) -> Tensor:
    """x, but no number is too small for its dtype, as in PyTorch."""
    return hg.maximum(x, float(torch.finfo(getattr(torch, x.dtype.numpy_name)).tiny))


def _standard_gamma(alpha: torch.Tensor, generator: Generator = None) -> torch.Tensor:
    return torch_tensor(above_zero(drawn("_standard_gamma", hg.random_gamma, [alpha], generator)))


def _sample_dirichlet(alpha: torch.Tensor, generator: Generator = None) -> torch.Tensor:
    return torch_tensor(above_zero(drawn("_sample_dirichlet", _dirichlet, [alpha], generator)))


def _dirichlet(alpha: Tensor, key: Tensor, offset: int) -> Tensor:
    moved = hg.concat([key[:1], key[1:] + offset]) if offset else key
    return hg.random.dirichlet(moved, alpha, alpha.shape[:-1], alpha.dtype)


def _poisson(rate: torch.Tensor, generator: Generator = None) -> torch.Tensor:
    numbers = drawn("poisson", hg.random_poisson, [rate], generator)
    negative = hg.any(hg.less(hologram_tensor(rate), 0.0))
    refuse("poisson", negative, "invalid Poisson rate, expected rate to be non-negative")
    return torch_tensor(numbers)


def _binomial(count: torch.Tensor, prob: torch.Tensor, generator: Generator = None) -> torch.Tensor:
    return torch_tensor(drawn("binomial", hg.random_binomial, [count, prob], generator))


register("_standard_gamma", _standard_gamma)
register("_sample_dirichlet", _sample_dirichlet)
register("poisson", _poisson)
register("binomial", _binomial)


# Derivatives of a number drawn by the parameter: -(d cdf / d parameter) / density.


def _finely(x: Tensor) -> Tensor:
    """In f64 where the device has it, as PyTorch's CPU: the terms nearly cancel."""
    return x.astype("f64" if dtypes.f64 in x.executor.limits.dtypes else "f32", copy=False)


def _known(x: Tensor) -> Tensor:
    return hg.where(hg.isnan(x), 0.0, x)


def _polynomial(x: Tensor, coefficients: Sequence[Any]) -> Any:
    """The lowest power first."""
    total = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = c + x * total
    return total


def _rows(text: str) -> list[list[float]]:
    return [[float(word) for word in line.split()] for line in text.strip().splitlines()]


# Of a rational function: a row for each power of log(alpha), by powers of log(x / alpha).
_ABOVE = _rows("""
0.16009398 0.53487893 0.040121004
-0.094634809 0.1298071 -0.0065914022
0.025146376 0.065735949 -0.0026286047
-0.0030648343 -0.0015649758 -0.0013441777
""")
_BELOW = _rows("""
1.0 0.16639465 0.017050642
0.32668115 0.020070113 -0.0021309326
0.10406089 -0.0035938915 0.00085092367
0.0014179084 -0.00058392623 -1.5247877e-07
""")


def _gamma_small(alpha: Tensor, x: Tensor) -> Tensor:
    """By a Taylor series."""
    numerator, total, slope = 1.0, 1.0 / alpha, 1.0 / (alpha * alpha)
    for k in range(1, 6):
        numerator = numerator * -x / k
        below = alpha + k
        total, slope = total + numerator / below, slope + numerator / (below * below)
    power = hg.pow(x, alpha)
    density = hg.pow(x, alpha - 1) * hg.exp(-x)
    return _known(-((hg.log(x) - hg.digamma(alpha)) * power * total - power * slope) / density)


def _gamma_large(alpha: Tensor, x: Tensor) -> Tensor:
    """By Rice's saddle point expansion."""
    squared = alpha * alpha
    near = (1 + 24 * alpha * (1 + 12 * alpha)) / (1244160 * squared * squared)
    near = near * (1440 * squared + 6 * x * (53 - 120 * x) - 65 * x * x / alpha + alpha * (107 + 3600 * x))
    below, apart, ratio = hg.sqrt(8 * alpha), alpha - x, hg.log(x / alpha)
    root = hg.pow(x - alpha - alpha * ratio, -1.5)
    both = below / apart + hg.where(hg.less(x, alpha), -root, root)
    term = ratio * both - hg.sqrt(2 / alpha) * (alpha + x) / (apart * apart)
    stirling = 1 + 1 / (12 * alpha) * (1 + 1 / (24 * alpha))
    is_near = hg.logical_and(hg.less_equal(0.9 * alpha, x), hg.less_equal(x, 1.1 * alpha))
    return hg.where(is_near, near, -stirling * x * term / below)


@implements("_standard_gamma_grad", inferred=False)
@fused
def standard_gamma_grad(alpha: Tensor, x: Tensor) -> Tensor:
    dtype, alpha, x = alpha.dtype, _finely(alpha), _finely(x)
    u, v = hg.log(x / alpha), hg.log(alpha)
    above, below = (_polynomial(v, [_polynomial(u, c) for c in each]) for each in (_ABOVE, _BELOW))
    slope = hg.where(hg.greater(alpha, 8.0), _gamma_large(alpha, x), hg.exp(above / below))
    return hg.where(hg.less(x, 0.8), _gamma_small(alpha, x), slope).astype(dtype, copy=False)


def _beta_near_zero(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """By alpha, by a Taylor series."""
    factor = hg.digamma(alpha) - hg.digamma(alpha + beta) - hg.log(x)
    numerator: Any = 1.0
    series = (factor + 1 / alpha) / alpha
    for k in range(1, 11):
        numerator = numerator * (k - beta) * x / k
        below = alpha + k
        series = series + numerator / below * (factor + 1 / below)
    return _known(x * hg.pow(1 - x, -beta) * series)


def _beta_near_one(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """By beta, by a Taylor series for an x close to 0."""
    factor = hg.digamma(alpha + beta) - hg.digamma(beta)
    numerator: Any = 1.0
    betas: Any = 1.0
    slopes: Any = 0.0
    series = factor / alpha
    for k in range(1, 9):
        numerator = numerator * -x / k
        slopes, betas = slopes * (beta - k) + betas, betas * (beta - k)
        series = series + numerator / (alpha + k) * (slopes + factor * betas)
    return _known(-hg.pow(1 - x, 1 - beta) * series)


def _stirling(x: Tensor) -> Tensor:
    return 1 + 1 / (12 * x) + 1 / (288 * x * x)


def _beta_large(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """By alpha, by Rice's saddle point expansion."""
    total = alpha + beta
    mean = alpha / total
    deviation = hg.sqrt(alpha * beta / (total + 1)) / total
    b2 = beta * beta
    terms = (
        47 * x * b2 * b2,
        (43 + 20 * (16 + 27 * beta) * x) * b2 * beta,
        3 * (59 + 180 * beta - 90 * x) * b2,
        (453 + 1620 * beta * (1 - x) - 455 * x) * beta,
        8 * (1 - x) * (135 * beta - 11),
    )
    near = (1 + 12 * alpha) * (1 + 12 * beta) / (total * total) / (1 - x) * _polynomial(alpha, terms)
    near = near / (12960 * alpha * alpha * alpha * b2 * (1 + 12 * total))
    across = alpha * (x - 1) + beta * x
    first = (2 * alpha * alpha * (x - 1) + alpha * beta * (x - 1) - x * b2) / (
        hg.sqrt(2 * alpha / beta) * hg.pow(total, 1.5) * across * across
    )
    ratio = hg.log(alpha / (total * x))
    last = hg.pow(beta * hg.log(beta / (total * (1 - x))) + alpha * ratio, -1.5)
    both = hg.sqrt(8 * alpha * beta / total) / across + hg.where(hg.less(x, mean), last, -last)
    far = -x / hg.sqrt(2 * alpha * beta / total) * (first + 0.5 * ratio * both)
    far = far * (_stirling(alpha) * _stirling(beta) / _stirling(total))
    return hg.where(hg.less_equal(hg.abs(x - mean), 0.1 * deviation), near, far)


# Of a rational function: three rows for each power of log(x), by powers of log(alpha / x), each by powers of log(total)
# less that.
_OVER = _rows("""
1.003668233 -0.01061107488 -0.0657888334 0.01201642863
0.6336835991 -0.3557432599 0.05486251648 -0.001465281033
-0.03276231906 0.004474107445 0.002429354597 -0.0001557569013
0.221950385 -0.3187676331 0.01799915743 0.01074823814
-0.2951249643 0.06219954479 0.01535556598 0.001550077057
0.02155310298 0.004170831599 0.001292462449 6.976601077e-05
-0.05980841433 0.008441916499 0.01085618172 0.002319392565
0.02911413504 0.01400243777 -0.002721828457 0.000751041181
0.005900514878 -0.001936558688 -9.495446725e-06 5.385558597e-05
""")
_UNDER = _rows("""
1.0 -0.02924021934 -0.04438342661 0.007285809825
0.6357567472 -0.3473456711 0.05454656494 -0.002407477521
-0.03301322327 0.004845219414 0.00231480583 -0.0002307248149
0.5925320577 -0.1757678135 0.01505928619 0.000564515273
0.1014815858 -0.06589186703 0.01272886114 -0.0007316646956
-0.007258481865 0.001096195486 0.0003934994223 -4.12701925e-05
0.06469649321 -0.0236701437 0.002902096474 -5.896963079e-05
0.001925008108 -0.002869809258 0.0008000589141 -6.063713228e-05
-0.0003477407336 6.959756487e-05 1.097287507e-05 -1.650964693e-06
""")


def _beta_between(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    u = hg.log(x)
    a = hg.log(alpha) - u
    b = hg.log(total) - a
    over, under = (
        _polynomial(u, [_polynomial(a, [_polynomial(b, row) for row in each[k : k + 3]]) for k in (0, 3, 6)])
        for each in (_OVER, _UNDER)
    )
    return over / under * x * (hg.digamma(total) - hg.digamma(alpha)) / (total - alpha)


@implements("_dirichlet_grad", inferred=False)
@fused
def dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    dtype, (x, alpha, total) = x.dtype, (_finely(each) for each in (x, alpha, total))
    beta, boundary = total - alpha, total * x * (1 - x)
    large = hg.logical_and(hg.greater(alpha, 6.0), hg.greater(beta, 6.0))
    slope = hg.where(large, _beta_large(x, alpha, beta), _beta_between(x, alpha, total))
    near_one = hg.logical_and(hg.greater_equal(x, 0.5), hg.less(boundary, 0.75))
    slope = hg.where(near_one, -_beta_near_one(1 - x, beta, alpha), slope)
    near_zero = hg.logical_and(hg.less_equal(x, 0.5), hg.less(boundary, 2.5))
    return hg.where(near_zero, _beta_near_zero(x, alpha, beta), slope).astype(dtype, copy=False)
