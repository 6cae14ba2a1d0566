"""Activations: element-wise functions of neural networks, named and parametrised as in PyTorch."""

from __future__ import annotations

import math

import numpy as np

from hologram.atlas import functions as atlas
from hologram.atlas.functions import select
from hologram.foundation.dtypes import INEXACT, NUMBERS, f32
from hologram.opset.forms import types
from hologram.opset.forms.accuracy import QUOTIENT
from hologram.opset.forms.holomorphic import holomorphic
from hologram.opset.forms.map import elementwise
from hologram.opset.forms.numpy_elementwise import numpy_elementwise
from hologram.opset.forms.samples import unary


@elementwise(types=types.number, dtypes=NUMBERS, reference=lambda x: np.maximum(x, 0), samples=unary(), aten=("relu",),
             gradient={"x": lambda cotangent, result: select(result > 0.0, cotangent, 0.0)},
             out_names=("vector_relu",))  # fmt: skip
def relu(x):
    """max(x, 0)."""
    return atlas.maximum(x, 0)


def _sigmoid_reference(x):
    if np.iscomplexobj(x):
        return 1 / (1 + np.exp(-x))
    return np.where(
        x < 0, np.exp(np.minimum(x, 0)) / (1 + np.exp(np.minimum(x, 0))), 1 / (1 + np.exp(-np.maximum(x, 0)))
    )


@elementwise(types=types.floating, dtypes=INEXACT, reference=_sigmoid_reference, ulp=4, aten=("sigmoid",),
             samples=lambda rng, d: unary(-20, 20, special=not d.is_complex)(rng, d),
             gradient={"x": holomorphic(lambda cotangent, result: cotangent * result * (1.0 - result))},
             parts_ulp=32, looser=(QUOTIENT,))  # fmt: skip
def sigmoid(x):
    """1 / (1 + exp(-x))."""
    if x.dtype.is_complex:
        return 1.0 / (1.0 + atlas.exp(-x))
    # exp(-|x|) never overflows: below 0 the same quotient is written as e / (1 + e).
    e = atlas.exp(-atlas.absolute(x))
    return select(x < 0.0, e, 1.0) / (1.0 + e)


@numpy_elementwise(types=types.floating, dtypes=INEXACT, ulp=3, aten=("tanh",))
def tanh(x):
    """The hyperbolic tangent."""
    return atlas.tanh(x)


def _gelu_reference(x, approximate="none"):
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    erf = np.vectorize(math.erf, otypes=[np.float64])
    return 0.5 * x * (1 + (erf(x / math.sqrt(2)) if np.size(x) else x))


def _gelu_samples(rng, dtype):
    for sample in unary(-6, 6, special=False)(rng, dtype):
        yield sample
        yield type(sample)(sample.operands, {"approximate": "tanh"})


# erf(u) = u P(u^2) / Q(u^2) for |u| <= 3.8325, from where on erf rounds to 1; the coefficients are Eigen's
# (MathFunctionsImpl.h, generic_fast_erf_float). In x^2 = 2 u^2 they change by powers of two.
_ERF_ONE = 3.832506856900711 * math.sqrt(2.0)
_ERF_P = (
    -1.60960333262415e-02, -2.95459980854025e-03, -7.34990630326855e-04, -5.69250639462346e-05, -2.10102402082508e-06,
    2.77068142495902e-08, -2.72614225801306e-10,
)  # fmt: skip
_ERF_Q = (-1.42647390514189e-02, -7.37332916720468e-03, -1.68282697438203e-03, -2.13374055278905e-04,
          -1.45660718464996e-05)  # fmt: skip
_HALF_ERF_P = tuple(c * math.sqrt(0.125) * 0.5**k for k, c in enumerate(_ERF_P))
_HALF_ERF_Q = tuple(c * 0.5**k for k, c in enumerate(_ERF_Q))


def _normal_distribution(x):
    """The normal distribution function: in f32 to an absolute error of 2e-7, by a quotient that costs half of erf."""
    if x.dtype != f32:
        return 0.5 * (1.0 + atlas.erf(x * math.sqrt(0.5)))
    inner = select(x > _ERF_ONE, _ERF_ONE, x)
    inner = select(inner < -_ERF_ONE, -_ERF_ONE, inner)
    z = inner * inner
    p, q = (x.builder.constant(c[-1], f32) for c in (_HALF_ERF_P, _HALF_ERF_Q))
    for coefficient in reversed(_HALF_ERF_P[:-1]):
        p = atlas.fma(p, z, coefficient)
    for coefficient in reversed(_HALF_ERF_Q[:-1]):
        q = atlas.fma(q, z, coefficient)
    return select(x < -_ERF_ONE, 0.0, atlas.fma(inner, p / q, 0.5))


def _gelu_gradient(cotangent, x, approximate):
    """Of the function, not of the quotient that stands for it."""
    if approximate == "tanh":
        scale = math.sqrt(2.0 / math.pi)
        inner = atlas.tanh(scale * (x + 0.044715 * x * x * x))
        slope = (1.0 - inner) * (1.0 + inner) * scale * (1.0 + 3 * 0.044715 * x * x)
        return cotangent * (0.5 * (1.0 + inner) + 0.5 * x * slope)
    return cotangent * (
        _normal_distribution(x) + x * (1.0 / math.sqrt(2.0 * math.pi)) * atlas.exp(-0.5 * x * x)
    )


@elementwise(
    types=types.floating,
    reference=_gelu_reference,
    samples=_gelu_samples,
    ulp=4,
    absolute=2.0,  # where x is far below 0, a sum that cancels is multiplied by x
    aten=("gelu",),
    gradient={"x": _gelu_gradient},
)
def gelu(x, *, approximate="none"):
    """x times the normal distribution function of x; `approximate="tanh"` is Hendrycks and Gimpel's form (2016)."""
    if approximate == "tanh":
        return 0.5 * x * (1.0 + atlas.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))
    if approximate != "none":
        raise ValueError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return x * _normal_distribution(x)


def _silu_gradient(cotangent, x):
    s = sigmoid(x)
    return cotangent * s * (1.0 + x * (1.0 - s))


@elementwise(types=types.floating, dtypes=INEXACT, reference=lambda x: x * _sigmoid_reference(x),
             samples=unary(-20, 20, special=False), ulp=5, parts_ulp=32, aten=("silu",), looser=(QUOTIENT,),
             gradient={"x": holomorphic(_silu_gradient)})  # fmt: skip
def silu(x):
    """x / (1 + exp(-x))."""
    return x * sigmoid(x)


@elementwise(types=types.floating, samples=unary(-20, 20), ulp=4, aten=("elu",),
             reference=lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(np.where(x > 0, 0, x))))  # fmt: skip
def elu(x, *, alpha: float = 1.0):
    """x above 0, alpha * (exp(x) - 1) elsewhere."""
    return select(x > 0.0, x, alpha * atlas.expm1(x))


@elementwise(types=types.floating, samples=unary(negative_slope=0.25), ulp=0.5, aten=("leaky_relu",),
             reference=lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope))  # fmt: skip
def leaky_relu(x, *, negative_slope: float = 0.01):
    """x above 0, x * negative_slope elsewhere."""
    return select(x > 0.0, x, x * negative_slope)


def _softplus_reference(x, beta=1.0, threshold=20.0):
    return np.where(x * beta > threshold, x, np.logaddexp(0, x * beta) / beta)


@elementwise(types=types.floating, reference=_softplus_reference, samples=unary(-30, 30, beta=2.0), ulp=5,
             aten=("softplus",), looser=(QUOTIENT,),
             gradient={"x": lambda cotangent, x, beta, threshold:
                       select(x * beta > threshold, cotangent, cotangent * sigmoid(x * beta))})  # fmt: skip
def softplus(x, *, beta: float = 1.0, threshold: float = 20.0):
    """log(1 + exp(beta x)) / beta, and x where beta x is above the threshold."""
    scaled = x * beta
    return select(scaled > threshold, x, atlas.log1p(atlas.exp(scaled)) / beta)


@elementwise(types=types.number, samples=unary(min_val=-2.0, max_val=3.0), aten=("hardtanh",),
             gradient={"x": lambda cotangent, x, min_val, max_val:
                       select((x > min_val) & (x < max_val), cotangent, 0.0)},
             reference=lambda x, min_val=-1.0, max_val=1.0: np.minimum(np.maximum(x, min_val), max_val))  # fmt: skip
def hardtanh(x, *, min_val: float = -1.0, max_val: float = 1.0):
    """x held between min_val and max_val."""
    return atlas.minimum(atlas.maximum(x, min_val), max_val)
