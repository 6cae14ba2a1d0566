"""The error function's complement, scaled and inverted, and the normal distribution's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.foundation import dtypes, lazy
from hologram.opset.forms import types
from hologram.opset.forms.map import elementwise
from hologram.opset.forms.polynomials import chebyshev, polynomial
from hologram.opset.forms.samples import unary

if TYPE_CHECKING:
    from scipy import special
else:  # for references
    special = lazy.module("scipy.special")

# (1 + 2 x) exp(x^2) erfc(x) from 0 on, in (x - 3.75) / (x + 3.75): Shepherd and Laframboise (Mathematics of Computation
# 36, 1981), computed anew in 40 digits.
_ERFCX = (
    3.322312292805403e-21, 9.736640851417358e-20, 2.6766527596247206e-20, -2.1873435186094123e-18,
    -2.2370576537717354e-18, 5.0681488313617815e-17, 7.418235264085994e-17, -1.2507950521724096e-15,
    -1.8645628792858603e-15, 3.3478119483418637e-14, 3.2525481480977216e-14, -9.654696748446483e-13,
    1.9455868545659568e-13, 2.8687950109306624e-11, -6.318088340886554e-11, -7.754400208831332e-10,
    4.5219598112182875e-09, 1.0764999465670908e-08, -2.1886401049234397e-07, 7.74038306619849e-07,
    4.13902798607301e-06, -6.916973302501207e-05, 0.0004907758365258086, -0.002413163540417608,
    0.009074997670705265, -0.026658668435305753, 0.05920993999819189, -0.08424913336651792,
    -0.004590054580646478, 2.3551578691348034,
)  # fmt: skip

# ndtri.c of the Cephes Mathematical Library (Moshier 1989; the 3-clause BSD licence of 2018).
_NDTRI_P0 = (
    -59.96335010141079, 98.00107541859997, -56.67628574690703, 13.931260938727968, -1.2391658386738125,
)  # fmt: skip
_NDTRI_Q0 = (
    1.0, 1.9544885833814176, 4.676279128988815, 86.36024213908905, -225.46268785411937, 200.26021238006066,
    -82.03722561683334, 15.90562251262117, -1.1833162112133,
)  # fmt: skip
_NDTRI_P1 = (
    4.0554489230596245, 31.525109459989388, 57.16281922464213, 44.08050738932008, 14.684956192885803,
    2.1866330685079025, -0.1402560791713545, -0.03504246268278482, -0.0008574567851546854,
)  # fmt: skip
_NDTRI_Q1 = (
    1.0, 15.779988325646675, 45.39076351288792, 41.3172038254672, 15.04253856929075, 2.504649462083094,
    -0.14218292285478779, -0.03808064076915783, -0.0009332594808954574,
)  # fmt: skip
_NDTRI_P2 = (
    3.2377489177694603, 6.915228890689842, 3.9388102529247444, 1.3330346081580755, 0.20148538954917908,
    0.012371663481782003, 0.00030158155350823543, 2.6580697468673755e-06, 6.239745391849833e-09,
)  # fmt: skip
_NDTRI_Q2 = (
    1.0, 6.02427039364742, 3.6798356385616087, 1.3770209948908132, 0.21623699359449663, 0.013420400608854318,
    0.00032801446468212774, 2.8924786474538068e-06, 6.790194080099813e-09,
)  # fmt: skip

# The first guess of the inverse: Pavlis's translation of MATLAB's erfinv.m of 1996.
_INVERSE_A = (-0.140543331, 0.914624893, -1.645349621, 0.886226899)
_INVERSE_B = (0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0)
_INVERSE_C = (1.641345311, 3.429567803, -1.624906493, -1.970840454)
_INVERSE_D = (1.637067800, 3.543889200, 1.0)
_SLOPE_AT_0 = 2.0 / math.sqrt(math.pi)


def _exp_square(x: Value, sign: float) -> Value:
    """exp(sign x^2), x split in two so that the square's rounding is not multiplied by its size."""
    wide, cut = (dtypes.u64, 27) if x.dtype == dtypes.f64 else (dtypes.u32, 12)
    high = (x.bitcast(wide) >> cut << cut).bitcast(x.dtype)
    return atlas.exp(sign * high * high) * atlas.exp(sign * (x - high) * (x + high))


def erfcx_right(x: Value) -> Value:
    """From 0 on."""
    return chebyshev(2.0 - 15.0 / (x + 3.75), _ERFCX) / (1.0 + 2.0 * x)


def _erfcx(x: Value) -> Value:
    right = erfcx_right(atlas.absolute(x))
    grown = select(atlas.absolute(x) > 30.0, math.inf, 2.0 * _exp_square(x, 1.0))
    return select(x < 0.0, grown - right, right)


def _erfcx_differentiable(x: Value) -> Value:
    """The same, infinite with infinite derivatives: a choice of infinity has none."""
    square, right = _exp_square(x, 1.0), erfcx_right(atlas.absolute(x))
    grown = 2.0 * select(square < math.inf, square, atlas.exp(x * x))
    return select(x < 0.0, grown - right, right)


def _erfc(x: Value) -> Value:
    y = atlas.absolute(x)
    tail = select(y > 30.0, 0.0, _exp_square(y, -1.0) * erfcx_right(y))
    return select(y < 0.5, 1.0 - atlas.erf(x), select(x < 0.0, 2.0 - tail, select(x != x, x, tail)))


def _erfc_reference(x):
    return np.vectorize(math.erfc, otypes=[np.float64])(x) if np.size(x) else np.asarray(x, np.float64)


@elementwise(types=types.floating, samples=unary(-5, 9), reference=_erfc_reference, ulp=8, aten=("erfc",),
             gradient={"x": lambda cotangent, x: -cotangent * _SLOPE_AT_0 * atlas.exp(-(x * x))})  # fmt: skip
def erfc(x):
    """The complement of the error function, 1 - erf(x), exact where that is small."""
    return _erfc(x)


@elementwise(types=types.floating, samples=unary(-2, 50, special=False), reference=lambda x: special.erfcx(x), ulp=8,
             aten=("special_erfcx",),
             gradient={"x": lambda cotangent, x:
                       cotangent * (2.0 * x * _erfcx_differentiable(x) - _SLOPE_AT_0)})  # fmt: skip
def erfcx(x):
    """The scaled complement of the error function, exp(x^2) erfc(x)."""
    return _erfcx(x)


def _inverse(y: Value) -> Value:
    """A rational guess, and two of Newton's steps from it."""
    z = y * y
    inner = y * polynomial(z, _INVERSE_A) / polynomial(z, _INVERSE_B)
    w = atlas.sqrt(-atlas.log((1.0 - atlas.absolute(y)) * 0.5))
    outer = polynomial(w, _INVERSE_C) / polynomial(w, _INVERSE_D)
    x = select(atlas.absolute(y) <= 0.7, inner, select(y < 0.0, -outer, outer))
    for _ in range(2):
        x = x - (atlas.erf(x) - y) / (_SLOPE_AT_0 * atlas.exp(-(x * x)))
    ends = select(y == 1.0, math.inf, select(y == -1.0, -math.inf, y * math.nan))
    return select(atlas.absolute(y) < 1.0, x, ends)


@elementwise(types=types.floating, samples=unary(-0.98, 0.98), reference=lambda x: special.erfinv(x), ulp=64,
             aten=("erfinv",),
             gradient={"x": lambda cotangent, result:
                       cotangent / _SLOPE_AT_0 * atlas.exp(result * result)})  # fmt: skip
def erfinv(x):
    """The number whose error function is x; infinite at -1 and 1, NaN beyond."""
    return _inverse(x)


_TAIL = math.exp(-2.0)


def _quantile(y: Value) -> Value:
    low = select(y > 1.0 - _TAIL, 1.0 - y, y)
    middle = y - 0.5
    z = middle * middle
    near = (middle + middle * (z * polynomial(z, _NDTRI_P0) / polynomial(z, _NDTRI_Q0))) * math.sqrt(
        2.0 * math.pi
    )
    x = atlas.sqrt(-2.0 * atlas.log(low))
    w = 1.0 / x
    close = polynomial(w, _NDTRI_P1) / polynomial(w, _NDTRI_Q1)
    distant = polynomial(w, _NDTRI_P2) / polynomial(w, _NDTRI_Q2)
    far = x - atlas.log(x) / x - w * select(x < 8.0, close, distant)
    far = select(y > 1.0 - _TAIL, far, -far)
    quantile = select(low > _TAIL, near, far)
    ends = select(y == 0.0, -math.inf, select(y == 1.0, math.inf, y * math.nan))
    return select((y > 0.0) & (y < 1.0), quantile, ends)


@elementwise(types=types.floating, samples=unary(0.01, 0.99), reference=lambda x: special.ndtri(x), ulp=64,
             absolute=8.0, aten=("special_ndtri",),
             gradient={"x": lambda cotangent, result:
                       cotangent * math.sqrt(2.0 * math.pi) * atlas.exp(0.5 * result * result)})  # fmt: skip
def ndtri(x):
    """The quantile of the normal distribution: the number below which lies the share x; NaN outside [0, 1]."""
    return _quantile(x)


def _log_normal(x: Value) -> Value:
    t = x * math.sqrt(0.5)
    left = atlas.log(erfcx_right(atlas.absolute(t)) * 0.5) - t * t
    return select(x < -1.0, left, atlas.log1p(-0.5 * _erfc(t)))


def _log_normal_slope(x: Value) -> Value:
    """The density over the distribution."""
    t = x * math.sqrt(0.5)
    ratio = 1.0 / erfcx_right(atlas.absolute(t))
    right = atlas.exp(-(t * t)) / (2.0 - _erfc(t))
    return math.sqrt(2.0 / math.pi) * select(x < 0.0, ratio, right)


@elementwise(types=types.floating, samples=unary(-30, 5, special=False), reference=lambda x: special.log_ndtr(x), ulp=8,
             absolute=4.0, aten=("special_log_ndtr",),
             gradient={"x": lambda cotangent, x: cotangent * _log_normal_slope(x)})  # fmt: skip
def log_ndtr(x):
    """The logarithm of the normal distribution function."""
    return _log_normal(x)
