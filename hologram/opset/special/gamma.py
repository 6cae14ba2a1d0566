"""The logarithm of the gamma function, its derivatives, the Hurwitz zeta function, and incomplete gamma functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.foundation import dtypes, lazy
from hologram.foundation.dtypes import DType
from hologram.opset.forms import types
from hologram.opset.forms.map import elementwise
from hologram.opset.forms.operation import Sample
from hologram.opset.forms.polynomials import chebyshev, polynomial
from hologram.opset.forms.samples import array, unary
from hologram.opset.special.error_functions import erfcx_right

if TYPE_CHECKING:
    from scipy import special
else:  # for references
    special = lazy.module("scipy.special")

# The logarithm over (x - 1) (x - 2) on [1, 3], in x - 2, computed in 40 digits.
_NEAR = (
    -8.206746544166728e-19, 3.1630451661790255e-18, -1.2204107319639856e-17, 4.714169006756272e-17,
    -1.8232177141662118e-16, 7.060670507214892e-16, -2.7382420786652826e-15, 1.0635701227757898e-14,
    -4.137949206814042e-14, 1.6128460030283787e-13, -6.298868140791711e-13, 2.465348198355661e-12,
    -9.672485299656325e-12, 3.8050196458110534e-11, -1.501312977072867e-10, 5.943541905817546e-10,
    -2.361999702184645e-09, 9.428100823624284e-09, -3.782637660291326e-08, 1.5268677399071546e-07,
    -6.208535880776316e-07, 2.5474336873408417e-06, -1.05728743735943e-05, 4.454470184975607e-05,
    -0.00019153855341365593, 0.0008478989895953857, -0.003922461463025264, 0.01951044826068884,
    -0.11119580321752523, 0.8829780509100285,
)  # fmt: skip

_FAR = 12.0  # from where on asymptotic series are used
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _terms(weight: object) -> tuple[float, ...]:
    """Coefficients of an asymptotic series from the highest power down: Bernoulli's numbers by a weight of 2 k."""
    return tuple(b * weight(2 * k) for k, b in reversed(list(enumerate(_BERNOULLI, 1))))  # type: ignore[operator]


_STIRLING = _terms(lambda n: 1 / (n * (n - 1)))
_DIGAMMA = _terms(lambda n: 1 / n)
_TRIGAMMA = _terms(lambda n: 1.0)
_TETRAGAMMA = _terms(lambda n: n + 1.0)


def _sine(x: Value) -> Value:
    """sin(pi x), of the distance from the nearest integer alone."""
    return atlas.sin((x - atlas.round_(x)) * math.pi)


def _log_gamma_right(x: Value) -> Value:
    """Above 0: by steps of 1 to [1, 3], or by Stirling's series."""
    factor, y = x.builder.constant(1.0, x.dtype), x
    for _ in range(int(_FAR) - 3):
        above = y > 3.0
        y = select(above, y - 1.0, y)
        factor = select(above, factor * y, factor)
    low = y < 1.0
    factor = select(low, factor * y, factor)
    y = select(low, y + 1.0, y)
    shift = atlas.log(factor)
    near = (y - 1.0) * (y - 2.0) * chebyshev(2.0 * (y - 2.0), _NEAR)
    near = select(low, near - shift, near + shift)
    w = 1.0 / x
    series = polynomial(w * w, _STIRLING) * w
    logarithm = atlas.log(x)
    far = (x - 0.5) * (logarithm - 1.0) + (0.5 * math.log(2.0 * math.pi) - 0.5) + series
    return select(x < _FAR, near, select(x > 1e17, x * (logarithm - 1.0), far))


def _log_gamma(x: Value) -> Value:
    right = _log_gamma_right(select(x < 0.5, 1.0 - x, x))
    left = math.log(math.pi) - atlas.log(atlas.absolute(_sine(x))) - right
    whole = (x <= 0.0) & (x == atlas.floor(x))
    tiny = atlas.absolute(x) < 1e-20  # its logarithm is that of 1 / x
    value = select(x < 0.5, select(tiny, -atlas.log(atlas.absolute(x)), left), right)
    return select(whole | (atlas.absolute(x) == math.inf), math.inf, value)


def _to_far(y: Value, term: Callable[[Value], Value]) -> tuple[Value, Value]:
    """A positive number by steps of 1 to where series hold, and the sum of a term at each step."""
    total = y.builder.constant(0.0, y.dtype)
    for _ in range(int(_FAR)):
        near = y < _FAR
        total = select(near, total + term(y), total)
        y = select(near, y + 1.0, y)
    return y, total


def _digamma(x: Value) -> Value:
    below = x < 0.0
    y, total = _to_far(select(below, 1.0 - x, x), lambda y: -1.0 / y)
    w = 1.0 / y
    value = total + atlas.log(y) - 0.5 * w - w * w * polynomial(w * w, _DIGAMMA)
    part = x - atlas.trunc(x)
    angle = part * math.pi  # no tangent: it is nearly infinite at halves, and its derivatives cancel there
    value = select(below, value - math.pi * atlas.cos(angle) / atlas.sin(angle), value)
    value = select(below & (part == 0.0), value * math.nan, value)  # its derivatives are no numbers either
    return select(x == 0.0, -1.0 / x, select(x == math.inf, x, value))


def _trigamma(x: Value) -> Value:
    below = x < 0.5
    y, total = _to_far(select(below, 1.0 - x, x), lambda y: 1.0 / (y * y))
    w = 1.0 / y
    value = total + w + 0.5 * w * w + w * w * w * polynomial(w * w, _TRIGAMMA)
    sine = _sine(x)
    mirrored = math.pi * math.pi / (sine * sine) - value
    return select(below, select(x == -math.inf, math.inf, mirrored), value)


def _log_gamma_reference(x):
    return np.where(x == -np.inf, np.inf, special.gammaln(x))


def _trigamma_slope(x: Value) -> Value:
    below = x < 0.5
    y, total = _to_far(select(below, 1.0 - x, x), lambda y: -2.0 / (y * y * y))
    w = 1.0 / y
    z = w * w
    value = total - z - z * w - z * z * polynomial(z, _TETRAGAMMA)
    angle = (x - atlas.round_(x)) * math.pi
    sine = atlas.sin(angle)
    return select(below, value - 2.0 * math.pi**3 * atlas.cos(angle) / (sine * sine * sine), value)


@elementwise(types=types.floating, samples=unary(-9.7, 60), reference=_log_gamma_reference, ulp=16,
             absolute=4.0, aten=("lgamma",),
             gradient={"x": lambda cotangent, x: cotangent * _digamma(x)})  # fmt: skip
def lgamma(x):
    """The logarithm of the magnitude of the gamma function; infinite at integers up to 0."""
    return _log_gamma(x)


@elementwise(types=types.floating, samples=unary(0.1, 60), reference=lambda x: special.digamma(x), ulp=16, absolute=4.0,
             aten=("digamma",), gradient={"x": lambda cotangent, x: cotangent * _trigamma(x)})  # fmt: skip
def digamma(x):
    """The derivative of the logarithm of the gamma function; NaN at negative integers."""
    return _digamma(x)


@elementwise(types=types.floating, samples=unary(0.1, 60, special=False), ulp=16, absolute=4.0,
             reference=lambda x: special.polygamma(1, x),
             gradient={"x": lambda cotangent, x: cotangent * _trigamma_slope(x)})  # fmt: skip
def trigamma(x):
    """The second derivative of the logarithm of the gamma function."""
    return _trigamma(x)


_ZETA_TERMS = (
    12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10, -2.950130727918164224e12,
    1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17, -7.1661652561756670113e18,
)  # fmt: skip
_DIRECT = 9
MOST_TURNS = 32_768  # of a lane


def _power(q: Value, x: Value) -> Value:
    """q to the power -x."""
    return atlas.power(q, -x)


def _zeta(x: Value, q: Value) -> Value:
    """Terms up to a base above 9, then Euler's and Maclaurin's formula (Cephes's zeta.c)."""
    count = _DIRECT - atlas.floor(select(q < 0.0, q, 0.0))
    count = select(count < float(MOST_TURNS), count, float(MOST_TURNS)).to(dtypes.i32).to(dtypes.index)

    def turn(_: Value, total: Value, base: Value) -> tuple[Value, Value]:
        base = base + 1.0
        return total + _power(base, x), base

    total, base = x.builder.loop(0, count, turn, first=(_power(q, x), q))
    last = _power(base, x)
    value = total + last * base / (x - 1.0) - 0.5 * last
    left, k = last * (x / base), 0.0
    for term in _ZETA_TERMS:
        value = value + left / term
        left = left * ((x + (k + 1.0)) / base) * ((x + (k + 2.0)) / base)
        k += 2.0
    negligible = last <= total * 1e-17  # what follows may overflow
    value = select(negligible, total, value)
    far = _power(q, x - 1.0) * (1.0 / (x - 1.0) + 0.5 / q + x / (12.0 * q) / q)  # DLMF 25.11.43
    value = select(q > (1e8 if x.dtype == dtypes.f64 else 1e3), far, value)
    defined = (q > 0.0) | (x == atlas.floor(x))
    pole = (q <= 0.0) & (q == atlas.floor(q))
    value = select(pole, math.inf, select(defined, value, math.nan))
    value = select((x == math.inf) & (q > 1.0), math.nan, value)  # as SciPy's and PyTorch's
    value = select((q == math.inf) & (x > 1.0), 0.0, value)
    return select(x == 1.0, math.inf, select(x < 1.0, math.nan, value))


def _zeta_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for a, b in (((7,), (7,)), ((5, 1), (1, 6)), ((0,), (1,)), ((), ())):
        yield Sample((array(rng, dtype, a, 1.1, 9), array(rng, dtype, b, 0.3, 20)))


@elementwise(types=types.floating, samples=_zeta_samples, reference=lambda x, q: special.zeta(x, q), ulp=64,
             aten=("special_zeta",))  # fmt: skip
def zeta(x, q):
    """The Hurwitz zeta function: the sum of (q + k)^-x over k from 0 on; infinite at x = 1, NaN below."""
    return _zeta(x, q)


# Incomplete gamma functions.


_SERIES_LIMIT = 0.1
_SERIES = tuple((-1) ** k / k for k in reversed(range(2, 19)))  # of m - log(1 + m), over m^2
_OUTER, _INNER = 64, 32  # turns


def _bent(m: Value) -> Value:
    """m - log(1 + m)."""
    return select(atlas.absolute(m) < _SERIES_LIMIT, m * m * polynomial(m, _SERIES), m - atlas.log1p(m))


def gamma_density(a: Value, x: Value) -> Value:
    """x^a exp(-x) / gamma(a): x times the density; of a large a near x from their distance, which is small."""
    bent = _bent((x - a) / a)
    w = 1.0 / a
    near = atlas.sqrt(a * (0.5 / math.pi)) * atlas.exp(-a * bent - w * polynomial(w * w, _STIRLING))
    plain = atlas.exp(a * atlas.log(x) - x - _log_gamma_right(a))
    return select(a > _FAR, near, plain)


def _unfinished(term: Value, total: Value) -> Value:
    least = 1e-16 if term.dtype == dtypes.f64 else 3e-8
    return atlas.absolute(term) > atlas.absolute(total) * least


def _lower(a: Value, x: Value) -> Value:
    """By the power series (DLMF 8.11.4), for x up to a + 1."""

    def term(i: Value, power: Value, total: Value, r: Value) -> tuple[Value, Value, Value]:
        r = r + 1.0
        power = power * x / r
        return power, total + power, r

    def turns(i: Value, power: Value, total: Value, r: Value) -> tuple[Value, ...]:
        return a.builder.if_(
            _unfinished(power, total),
            lambda: a.builder.loop(0, _INNER, term, first=(power, total, r)),
            lambda: (power, total, r),
        )

    one = a.builder.constant(1.0, a.dtype)
    _, total, _ = a.builder.loop(0, _OUTER, turns, first=(one, one, a))
    return gamma_density(a, x) * total / a


def _upper(a: Value, x: Value) -> Value:
    """By the continued fraction (DLMF 8.9.2; Lentz's method), for x above a + 1."""

    def term(i: Value, c: Value, d: Value, h: Value, change: Value, n: Value) -> tuple[Value, ...]:
        n = n + 1.0
        step = -n * (n - a)
        b = x + 1.0 - a + 2.0 * n
        d = 1.0 / (step * d + b)
        c = b + step / c
        change = c * d
        return c, d, h * change, change, n

    def turns(i: Value, c: Value, d: Value, h: Value, change: Value, n: Value) -> tuple[Value, ...]:
        return a.builder.if_(
            _unfinished(change - 1.0, one),
            lambda: a.builder.loop(0, _INNER, term, first=(c, d, h, change, n)),
            lambda: (c, d, h, change, n),
        )

    one = a.builder.constant(1.0, a.dtype)
    zero = a.builder.constant(0.0, a.dtype)
    b = x + 1.0 - a
    first = 1.0 / select(b == 0.0, 1e-30, b)
    large = a.builder.constant(1e30, a.dtype)
    _, _, h, _, _ = a.builder.loop(0, _OUTER, turns, first=(large, first, first, zero, zero))
    return gamma_density(a, x) * h


# Coefficients of Temme's expansion, in eta, for the powers 0, 1 and 2 of 1 / a (DLMF 8.12.9), computed in fractions.
UNIFORM = (
    (-5.0276692801141755e-12, 2.4361948020667415e-11, -5.830772132550426e-11, -2.5514193994946248e-11,
     9.14769958223679e-10, -4.382036018453353e-09, 1.0261809784240309e-08, 6.707853543401498e-09,
     -1.7665952736826078e-07, 8.296711340953087e-07, -1.85406221071516e-06, -2.185448510679992e-06,
     3.919263178522438e-05, -0.0001787551440329218, 0.0003527336860670194, 0.0011574074074074073,
     -0.014814814814814815, 0.08333333333333333, -0.3333333333333333),
    (-1.7543241719747647e-11, 1.1951628599778148e-08, -5.752545603517705e-08, 1.378633446915721e-07,
     4.647127802807434e-09, -1.6120900894563446e-06, 7.64916091608111e-06, -1.8098550334489977e-05,
     -4.018775720164609e-07, 0.00020576131687242798, -0.0009902263374485596, 0.0026455026455026454,
     -0.003472222222222222, -0.001851851851851852),
    (3.423578734096138e-08, -1.2760635188618728e-05, 5.2923448829120125e-05, -0.0001073665322636516,
     2.0093878600823047e-06, 0.0007716049382716049, -0.0026813271604938273, 0.004133597883597883),
)  # fmt: skip
_UNIFORM_FROM, _UNIFORM_WITHIN = 1e4, 0.3  # a at least, and the distance of x from it, in a


def _tail(a: Value, x: Value) -> Value:
    """The smaller one of the two for a large a near x: Temme's uniform asymptotic expansion (1979; DLMF 8.12.3)."""
    m, w = (x - a) / a, 1.0 / a
    bent = _bent(m)
    magnitude = atlas.sqrt(2.0 * bent)
    eta = select(m < 0.0, -magnitude, magnitude)
    zeroth, first, second = (polynomial(eta, each) for each in UNIFORM)
    rest = (zeroth + w * (first + w * second)) * atlas.sqrt(w * (0.5 / math.pi))
    half = 0.5 * erfcx_right(atlas.sqrt(a * bent))
    return atlas.exp(-a * bent) * (half + select(m < 0.0, -rest, rest))


_SMALL = 0.3  # a below which 1 - lower would cancel: the whole is of the order of a


def _upper_of_small(a: Value, x: Value) -> Value:
    """For a small a and x up to a + 1: 1 - x^a / gamma(a + 1), and the rest of the series, without cancellation."""

    def term(i: Value, power: Value, total: Value, n: Value) -> tuple[Value, Value, Value]:
        n = n + 1.0
        power = -power * x / n
        return power, total + power / (a + n), n

    one, zero = (a.builder.constant(k, a.dtype) for k in (1.0, 0.0))
    _, total, _ = a.builder.loop(0, 20, term, first=(one, zero, zero))
    exponent = a * atlas.log(x) - a * (a - 1.0) * chebyshev(2.0 * (a - 1.0), _NEAR)
    return -atlas.expm1(exponent) - a * atlas.exp(exponent) * total


def _incomplete(a: Value, x: Value, complement: bool) -> Value:
    inside = (a > 0.0) & (x > 0.0) & (a < math.inf) & (x < math.inf)
    uniform = inside & (a > _UNIFORM_FROM) & (atlas.absolute(x - a) < a * _UNIFORM_WITHIN)
    tail = _tail(select(uniform, a, 1.0), select(uniform, x, 1.0))
    safe_a, safe_x = (select(uniform, 1.0, select(inside, each, 1.0)) for each in (a, x))
    series = safe_x <= safe_a + 1.0
    lower = _lower(safe_a, select(series, safe_x, safe_a))
    upper = _upper(safe_a, select(series, safe_a + 2.0, safe_x))
    value = select(series, 1.0 - lower, upper) if complement else select(series, lower, 1.0 - upper)
    if complement:
        small = series & (safe_a < _SMALL)
        of_small = _upper_of_small(select(small, safe_a, _SMALL), select(small, safe_x, 1.0))
        value = select(small, of_small, value)
    value = select(uniform, select((x >= a) if complement else (x < a), tail, 1.0 - tail), value)
    none, all_ = (1.0, 0.0) if complement else (0.0, 1.0)  # of x = 0, and of x infinite
    ends = select(
        x == 0.0, none, select(a == math.inf, select(x == math.inf, math.nan, x * 0.0 + none), all_)
    )
    ends = select(a == 0.0, select(x > 0.0, all_, a * 0.0 + math.nan), ends)
    wrong = (a < 0.0) | (x < 0.0) | (a != a) | (x != x)
    return select(inside, value, select(wrong, math.nan, ends))


def _density(cotangent: Value, a: Value, x: Value) -> Value:
    return cotangent * atlas.exp((a - 1.0) * atlas.log(x) - x - _log_gamma(a))


def _with_nan(function: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy's function, NaN wherever an argument is: before 1.16 it was 0 or 1 at some."""
    return lambda a, x: np.where(np.isnan(a) | np.isnan(x), np.nan, function(a, x))


def _incomplete_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for a, b in (((7,), (7,)), ((5, 1), (1, 6)), ((0,), (1,)), ((), ())):
        yield Sample((array(rng, dtype, a, 0.2, 9), array(rng, dtype, b, 0.1, 20)))
    yield Sample((array(rng, dtype, (9,), 20, 200), array(rng, dtype, (9,), 20, 200)))


@elementwise(types=types.floating, samples=_incomplete_samples,
             reference=_with_nan(lambda a, x: special.gammainc(a, x)), ulp=64, absolute=4.0, aten=("igamma",),
             gradient={"x": lambda cotangent, a, x: _density(cotangent, a, x)})  # fmt: skip
def igamma(a, x):
    """The regularised lower incomplete gamma function: the share of the integral of t^(a-1) exp(-t) up to x."""
    return _incomplete(a, x, False)


@elementwise(types=types.floating, samples=_incomplete_samples,
             reference=_with_nan(lambda a, x: special.gammaincc(a, x)), ulp=64, absolute=4.0, aten=("igammac",),
             gradient={"x": lambda cotangent, a, x: -_density(cotangent, a, x)})  # fmt: skip
def igammac(a, x):
    """The regularised upper incomplete gamma function: the share of the integral of t^(a-1) exp(-t) beyond x."""
    return _incomplete(a, x, True)
