"""Bessel functions of the first and second kind, of orders 0 and 1.

Rational approximations up to 5, and of modulus and phase beyond, with the coefficients of the Cephes Mathematical
Library (Moshier 1989, j0.c and j1.c; the 3-clause BSD licence of 2018).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.foundation import lazy
from hologram.opset.forms import types
from hologram.opset.forms.map import elementwise
from hologram.opset.forms.polynomials import monic, polynomial
from hologram.opset.forms.samples import unary
from hologram.opset.functions import sine_over

if TYPE_CHECKING:
    from scipy import special
else:  # for references
    special = lazy.module("scipy.special")

_J0_PP = (
    0.0007969367292973471, 0.08283523921074408, 1.239533716464143, 5.447250030587687, 8.74716500199817,
    5.303240382353949, 1.0,
)  # fmt: skip
_J0_PQ = (
    0.0009244088105588637, 0.08562884743544745, 1.2535274390105895, 5.470977403304171, 8.761908832370695,
    5.306052882353947, 1.0,
)  # fmt: skip
_J0_QP = (
    -0.011366383889846916, -1.2825271867050931, -19.553954425773597, -93.20601521237683, -177.68116798048806,
    -147.07750515495118, -51.41053267665993, -6.050143506007285,
)  # fmt: skip
_J0_QQ = (
    64.3178256118178, 856.4300259769806, 3882.4018360540163, 7240.467741956525, 5930.727011873169,
    2062.0933166032783, 242.0057402402914,
)  # fmt: skip
_J0_RP = (
    -4794432209.782018, 1956174919465.5657, -249248344360967.72, 9708622510473064.0,
)  # fmt: skip
_J0_RQ = (
    499.563147152651, 173785.4016763747, 48440965.83399621, 11185553704.535683, 2112775201154.892,
    310518229857422.56, 3.1812195594320496e+16, 1.7108629408104315e+18,
)  # fmt: skip
_Y0_YP = (
    15592.436785523574, -14663929.59039716, 5435264770.518765, -982136065717.9115, 87590639439536.7,
    -3466283033847297.0, 4.4273326857256984e+16, -1.8495080043698668e+16,
)  # fmt: skip
_Y0_YQ = (
    1041.2835366425984, 626107.330137135, 268919633.39381415, 86400248710.3935, 20297961275010.555,
    3171577528429750.5, 2.5059625617265306e+17,
)  # fmt: skip
_J1_PP = (
    0.0007621256162081731, 0.07313970569409176, 1.1271960812968493, 5.112079511468076, 8.424045901417724,
    5.214515986823615, 1.0,
)  # fmt: skip
_J1_PQ = (
    0.0005713231280725487, 0.06884559087544954, 1.105142326340617, 5.073863861286015, 8.399855543276042,
    5.209828486823619, 1.0,
)  # fmt: skip
_J1_QP = (
    0.05108625947501766, 4.982138729512334, 75.82382841325453, 366.7796093601508, 710.8563049989261,
    597.4896124006136, 211.68875710057213, 25.207020585802372,
)  # fmt: skip
_J1_QQ = (
    74.23732770356752, 1056.4488603826283, 4986.410583376536, 9562.318924047562, 7997.041604473507,
    2826.1927851763908, 336.0936078106983,
)  # fmt: skip
_J1_RP = (
    -899971225.7055594, 452228297998.19403, -72749424522181.83, 3682957328638529.0,
)  # fmt: skip
_J1_RQ = (
    620.8364781180543, 256987.25675774884, 83514679.14319493, 22151159547.97925, 4749141220799.914,
    784369607876235.9, 8.952223361846274e+16, 5.322786203326801e+18,
)  # fmt: skip
_Y1_YP = (
    1263204747.9017804, -647355876379.1603, 114509511541823.73, -8127702555013251.0, 2.024394757135949e+17,
    -7.788771962659501e+17,
)  # fmt: skip
_Y1_YQ = (
    594.3015923461282, 235564.09294306856, 73481194.44597217, 18760131610.870617, 3882312774962.3857,
    620557727146953.8, 6.871410873553005e+16, 3.9727060811656064e+18,
)  # fmt: skip

Table = Sequence[float]
Tables = tuple[Table, Table, Table, Table]
_FAR_0: Tables = (_J0_PP, _J0_PQ, _J0_QP, _J0_QQ)
_FAR_1: Tables = (_J1_PP, _J1_PQ, _J1_QP, _J1_QQ)
_ZEROS_0 = (5.78318596294678452118, 30.4712623436620863991)  # squares of the first two
_ZEROS_1 = (14.6819706421238932572, 49.2184563216946036703)
_TWO_OVER_PI = 2.0 / math.pi


def _far(x: Value, tables: Tables, turn: float, second: bool) -> Value:
    """Beyond 5: the square root of 2 / (pi x) times a wave, `turn` behind; the second kind is a quarter ahead."""
    pp, pq, qp, qq = tables
    w = 5.0 / x
    z = w * w
    p, q = polynomial(z, pp) / polynomial(z, pq), w * (polynomial(z, qp) / monic(z, qq))
    angle = x - turn
    sine, cosine = atlas.sin(angle), atlas.cos(angle)
    wave = p * sine + q * cosine if second else p * cosine - q * sine
    return wave * math.sqrt(_TWO_OVER_PI) / atlas.sqrt(x)


def _j0(x: Value) -> Value:
    y = atlas.absolute(x)
    z = y * y
    near = (z - _ZEROS_0[0]) * (z - _ZEROS_0[1]) * polynomial(z, _J0_RP) / monic(z, _J0_RQ)
    tiny = 1.0 - z * (0.25 - z * (1.0 / 64.0 - z * (1.0 / 2304.0)))  # derivatives are read there too
    return select(y <= 5.0, select(y < 1e-5, tiny, near), _far(y, _FAR_0, math.pi / 4, False))


def _j1(x: Value) -> Value:
    y = atlas.absolute(x)
    z = y * y
    near = polynomial(z, _J1_RP) / monic(z, _J1_RQ) * x * (z - _ZEROS_1[0]) * (z - _ZEROS_1[1])
    far = _far(y, _FAR_1, 0.75 * math.pi, False)
    return select(y <= 5.0, near, select(x < 0.0, -far, far))


def _j1_over(x: Value) -> Value:
    """_j1(x) / x, near 0 without that division, whose derivatives cancel."""
    y = atlas.absolute(x)
    z = y * y
    near = polynomial(z, _J1_RP) / monic(z, _J1_RQ) * (z - _ZEROS_1[0]) * (z - _ZEROS_1[1])
    return select(y <= 5.0, near, _far(y, _FAR_1, 0.75 * math.pi, False) / y)


def _pole(x: Value) -> Value:
    """1 / |x|, whose derivatives at 0 are infinite as well."""
    return 1.0 / atlas.absolute(x)


def _defined(x: Value, value: Value, pole: Value) -> Value:
    """Of the second kind: infinite at 0, with the derivatives of `pole`; NaN below."""
    return select(x == 0.0, pole, select(x < 0.0, math.nan, value))


def _y0(x: Value) -> Value:
    z = x * x
    near = polynomial(z, _Y0_YP) / monic(z, _Y0_YQ) + _TWO_OVER_PI * atlas.log(x) * _j0(x)
    return _defined(x, select(x <= 5.0, near, _far(x, _FAR_0, math.pi / 4, True)), -_pole(x))


def _y1(x: Value) -> Value:
    z = x * x
    near = x * (polynomial(z, _Y1_YP) / monic(z, _Y1_YQ)) + _TWO_OVER_PI * (_j1(x) * atlas.log(x) - 1.0 / x)
    return _defined(x, select(x <= 5.0, near, _far(x, _FAR_1, 0.75 * math.pi, True)), -_pole(x))


@elementwise(types=types.floating, samples=unary(-30, 30), reference=lambda x: special.j0(x), ulp=8, absolute=8.0,
             aten=("special_bessel_j0",), gradient={"x": lambda cotangent, x: -cotangent * _j1(x)})  # fmt: skip
def bessel_j0(x):
    """The Bessel function of the first kind of order 0."""
    return _j0(x)


@elementwise(types=types.floating, samples=unary(-30, 30), reference=lambda x: special.j1(x), ulp=8, absolute=8.0,
             aten=("special_bessel_j1",),
             gradient={"x": lambda cotangent, x: cotangent * (_j0(x) - _j1_over(x))})  # fmt: skip
def bessel_j1(x):
    """The Bessel function of the first kind of order 1."""
    return _j1(x)


@elementwise(types=types.floating, samples=unary(0.1, 30), reference=lambda x: special.y0(x), ulp=8, absolute=8.0,
             aten=("special_bessel_y0",), gradient={"x": lambda cotangent, x: -cotangent * _y1(x)})  # fmt: skip
def bessel_y0(x):
    """The Bessel function of the second kind of order 0; NaN below 0."""
    return _y0(x)


@elementwise(types=types.floating, samples=unary(0.1, 30), reference=lambda x: special.y1(x), ulp=8, absolute=8.0,
             aten=("special_bessel_y1",),
             gradient={"x": lambda cotangent, x:
                       cotangent * _defined(x, _y0(x) - _y1(x) / x, _pole(x) * _pole(x))})  # fmt: skip
def bessel_y1(x):
    """The Bessel function of the second kind of order 1; NaN below 0."""
    return _y1(x)


@elementwise(types=types.floating, samples=unary(-30, 30), reference=lambda x: special.spherical_jn(0, abs(x)), ulp=8,
             absolute=8.0, aten=("special_spherical_bessel_j0",))  # fmt: skip
def spherical_bessel_j0(x):
    """The spherical Bessel function of the first kind of order 0, sin(x) / x."""
    return select(atlas.absolute(x) == math.inf, 0.0, sine_over(x, atlas.sin(x) / x))
