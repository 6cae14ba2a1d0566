"""The Airy function.

Its power series near 0 and rational approximations beyond, with the coefficients of the Cephes Mathematical Library
(Moshier 1989, airy.c; the 3-clause BSD licence of 2018).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.foundation import lazy
from hologram.opset.forms import types
from hologram.opset.forms.map import elementwise
from hologram.opset.forms.polynomials import monic, polynomial
from hologram.opset.forms.samples import unary

if TYPE_CHECKING:
    from scipy import special
else:  # for references
    special = lazy.module("scipy.special")

_AN = (
    0.346538101525629, 12.007595273964581, 76.27960536152345, 168.08922493463058, 159.75639135016442,
    70.53609068404442, 14.026469116338967, 1.0,
)  # fmt: skip
_AD = (
    0.5675945326387702, 14.75625625848472, 84.51389701414746, 177.31808814540045, 164.2346928715297,
    71.47784008255756, 14.095913560783403, 1.0,
)  # fmt: skip
_AFN = (
    -0.1316963234183318, -0.6264565444319123, -0.6931580360369335, -0.2797799815451191, -0.04919001326095003,
    -0.004062659235948854, -0.0001592764962392621, -2.776491081552329e-06, -1.6778769848911465e-08,
)  # fmt: skip
_AFD = (
    13.356042070655324, 32.682503279522464, 26.736704094149957, 9.187074029072596, 1.4752914677166642,
    0.11568717379518804, 0.004402916416152112, 7.547203482874142e-05, 4.5185009297058035e-07,
)  # fmt: skip
_AGN = (
    0.01973399320916857, 0.39110302961568827, 1.0657989759959559, 0.9391692298166502, 0.35146565610554764,
    0.06338889196289255, 0.005858041130483885, 0.000282851600836737, 6.98793669997261e-06,
    8.117892395543892e-08, 3.415517847659236e-10,
)  # fmt: skip
_AGD = (
    9.30892908077442, 19.835292871831214, 15.564662893286462, 5.476860694229755, 0.9542936116189619,
    0.08645808263523921, 0.004126565238242226, 0.00010125908511650914, 1.1716673321441352e-06,
    4.9183457006293e-09,
)  # fmt: skip

_AT_0, _SLOPE_AT_0 = 0.355028053887817239260, 0.258819403792806798405


def _series() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Coefficients in x^3 of the two solutions, from the highest power down; 14 terms suffice up to 2.09."""
    f, g = [1.0], [1.0]
    for k in range(1, 15):
        f.append(f[-1] / ((3 * k - 1) * (3 * k)))
        g.append(g[-1] / ((3 * k) * (3 * k + 1)))
    return tuple(reversed(f)), tuple(reversed(g))


_F, _G = _series()


def _near(x: Value) -> Value:
    z = x * x * x
    return _AT_0 * polynomial(z, _F) - _SLOPE_AT_0 * x * polynomial(z, _G)


def _right(x: Value) -> Value:
    root = atlas.sqrt(x)
    zeta = 2.0 * x * root / 3.0
    z = 1.0 / zeta
    ratio = polynomial(z, _AN) / polynomial(z, _AD)
    # No quotient by an exponential: where that overflows, derivatives would be 0 times infinity.
    return (0.5 / math.sqrt(math.pi)) * ratio / atlas.sqrt(root) * atlas.exp(-zeta)


def _left(x: Value) -> Value:
    y = -x
    root = atlas.sqrt(y)
    zeta = 2.0 * y * root / 3.0
    z = 1.0 / zeta
    w = z * z
    f = 1.0 + w * polynomial(w, _AFN) / monic(w, _AFD)
    g = z * polynomial(w, _AGN) / monic(w, _AGD)
    angle = zeta + 0.25 * math.pi
    return (atlas.sin(angle) * f - atlas.cos(angle) * g) / (math.sqrt(math.pi) * atlas.sqrt(root))


@elementwise(types=types.floating, samples=unary(-8, 8, special=False), reference=lambda x: special.airy(x)[0], ulp=64,
             absolute=16.0, aten=("special_airy_ai",))  # fmt: skip
def airy_ai(x):
    """The Airy function of the first kind, Ai; NaN of infinities, as in PyTorch."""
    value = select(x < -2.09, _left(x), select(x > 2.09, _right(x), _near(x)))
    return select(atlas.absolute(x) == math.inf, math.nan, select(x > 103.892, 0.0, value))
