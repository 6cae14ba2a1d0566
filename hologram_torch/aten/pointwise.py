"""Element by element: what ATen writes otherwise than the declarations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram.opset import OPERATIONS
from hologram_torch.aten.indexing.positions import refuse
from hologram_torch.kernels import registry
from hologram_torch.kernels.kernel import Promotes
from hologram_torch.kernels.numbers import converted, scalar
from hologram_torch.kernels.promotion import Promotion
from hologram_torch.kernels.registry import implements, register
from hologram_torch.tensors.memory import hologram_tensor

SAME, FLOAT = Promotion.DEFAULT, Promotion.INT_TO_FLOAT


def scaled(x: Any, factor: bool | int | float, move_to_device_of: Any) -> Any:
    """A tensor or a number times `alpha`, where what it is added to may be the tensor of the two.

    Raises RuntimeError for factors that PyTorch has no meaning for.
    """
    dtype = (x if isinstance(x, Tensor) else move_to_device_of).dtype
    if isinstance(factor, bool) and dtype.kind != "bool":
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(factor, float) and not dtype.is_inexact:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if isinstance(factor, complex) and not dtype.is_complex:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    if factor == 1:
        return x
    if dtype.kind == "bool":
        return hg.logical_and(x, scalar(x, factor)) if isinstance(x, Tensor) else bool(x and factor)
    if isinstance(x, Tensor):
        return hg.multiply(x, scalar(x, factor) if dtype.is_integer else factor)
    return converted(x * factor, dtype)


@implements("pow.Scalar", promotes=SAME)
def power_of(base: bool | int | float, exponent: Tensor) -> Tensor:
    """PyTorch's decomposition calls itself where it computes eagerly."""
    return hg.pow(scalar(exponent, base), exponent)


def _to_the(x: Tensor, exponent: Any) -> Tensor:
    if not x.dtype.is_inexact and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    return hg.pow(x, exponent)


registry.add("pow.Tensor_Scalar", _to_the, Promotes(SAME, 0, wraps=False))


@implements("add.Tensor", "add.Scalar", promotes=SAME, operation=OPERATIONS["add"])
def add(x: Any, y: Any, alpha: Any = 1) -> Any:
    return hg.add(x, scaled(y, alpha, x))


def of_bools(*operands: Any) -> str | None:
    """PyTorch subtracts no bools: NotImplementedError since 2.14, before that the RuntimeError that it is one of."""
    if any(
        x.dtype == torch.bool if isinstance(x, torch.Tensor) else isinstance(x, bool) for x in operands[:2]
    ):
        raise NotImplementedError(
            "hologram, sub: Subtraction, the `-` operator, with a bool tensor is not supported."
        )
    return None


@implements("sub.Tensor", "sub.Scalar", promotes=SAME, operation=OPERATIONS["subtract"], refuses=of_bools)
def sub(x: Any, y: Any, alpha: Any = 1) -> Any:
    return hg.subtract(x, scaled(y, alpha, x))


@implements("hardtanh", by_class=True)
def hardtanh(x: Tensor, min_val: float = -1, max_val: float = 1) -> Any:
    """x held between bounds, which for integers are whole."""
    return hg.hardtanh(x, min_val=converted(min_val, x.dtype), max_val=converted(max_val, x.dtype))


@implements("heaviside")
def heaviside(x: Any, values: Any) -> Any:
    """`values` where x is 0, else whether it is above."""
    if x.dtype != values.dtype:
        raise RuntimeError("hologram: heaviside is not yet implemented for tensors with different dtypes.")
    return hg.where(hg.equal(x, 0), values, hg.greater(x, 0).astype(x.dtype))


@implements("rsub.Tensor", "rsub.Scalar", promotes=SAME, refuses=of_bools)
def rsub(x: Any, y: Any, alpha: Any = 1) -> Any:
    return hg.subtract(y, scaled(x, alpha, y))


ROUNDINGS: dict[Any, Callable[..., Any]] = {"trunc": hg.trunc_divide, "floor": hg.floor_divide}


@implements("div.Tensor_mode", "div.Scalar_mode", by_class=True)
def div(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    operands = promoted(x, y)
    narrow = any(isinstance(v, Tensor) and v.dtype.is_float for v in operands)
    # PyTorch rounds the quotient to its dtype first.
    if rounding_mode is None or (narrow and rounding_mode == "trunc"):
        quotient = hg.divide(*operands)
        return quotient if rounding_mode is None else hg.trunc(quotient)
    return ROUNDINGS[rounding_mode](*operands)


def promoted(x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands, bools as u8, which divisions do not take."""
    return tuple(v.astype("u8") if isinstance(v, Tensor) and v.dtype.kind == "bool" else v for v in (x, y))  # type: ignore[return-value]


# Operators whose forms with numbers PyTorch would else reduce to the form with tensors, and call that with numbers.
NUMBERS: dict[str, tuple[str, ...]] = {
    "remainder": ("Tensor", "Scalar", "Scalar_Tensor"),
    "fmod": ("Tensor", "Scalar"),
    "floor_divide": ("", "Scalar"),
    "fmax": ("",),
    "fmin": ("",),
    "bitwise_and": ("Tensor", "Scalar", "Scalar_Tensor"),
    "bitwise_or": ("Tensor", "Scalar", "Scalar_Tensor"),
    "bitwise_xor": ("Tensor", "Scalar", "Scalar_Tensor"),
    "bitwise_left_shift": ("Tensor", "Tensor_Scalar", "Scalar_Tensor"),
    "bitwise_right_shift": ("Tensor", "Tensor_Scalar", "Scalar_Tensor"),
}
for _name, _overloads in NUMBERS.items():
    _operation = OPERATIONS[_name]
    implements(*(f"{_name}.{o}".rstrip(".") for o in _overloads), promotes=SAME, operation=_operation)(
        _operation
    )


def _wrap_round() -> bool:
    """Whether bounds beyond a dtype of integers wrap round, or are refused, as before PyTorch 2.15."""
    return int(torch.zeros(1, dtype=torch.uint8).clamp(min=-1)) != 0


WRAP_ROUND = _wrap_round()


def _bound(x: Tensor, number: Any, beyond: Callable[[Any], bool]) -> Any:
    """A bound of elements; None where none of them can be beyond it."""
    if not x.dtype.is_integer or type(number) is not int:
        return number
    if WRAP_ROUND:
        return converted(number, x.dtype)
    return None if beyond(number) else number


@implements("clamp", "clamp.Tensor", promotes=SAME, wraps=False)
def clamp(x: Any, low: Any = None, high: Any = None, **named: Any) -> Any:
    low = _bound(x, named.get("min", low), lambda number: number < x.dtype.lowest)
    high = _bound(x, named.get("max", high), lambda number: number > x.dtype.highest)
    if low is None and high is None:
        return x
    if x.dtype.kind != "bool":
        return hg.clip(x, low, high)
    x = x if low is None else hg.maximum(x, low)
    return x if high is None else hg.minimum(x, high)


@implements("clamp_min", "clamp_min.Tensor", promotes=SAME, wraps=False)
def clamp_min(x: Any, low: Any = None, **named: Any) -> Any:
    return clamp(x, named.get("min", low))


@implements("clamp_max", "clamp_max.Tensor", promotes=SAME, wraps=False)
def clamp_max(x: Any, high: Any = None, **named: Any) -> Any:
    return clamp(x, None, named.get("max", high))


@implements("sign", "sgn", by_class=True)
def sign(x: Any) -> Any:
    """Of NaN 0, which hologram keeps."""
    if x.dtype.kind == "bool":
        return x
    return hg.where(hg.isnan(x), 0.0, hg.sign(x)) if x.dtype.is_float else hg.sign(x)


@implements("signbit", by_class=True)
def signbit(x: Any) -> Any:
    return hg.signbit(x) if x.dtype.is_float else hg.less(x, 0)


@implements("angle", promotes=FLOAT)
def angle(x: Any) -> Any:
    if x.dtype.is_complex:
        return hg.angle(x)
    return hg.where(hg.less(x, 0.0), math.pi, hg.where(hg.isnan(x), x, 0.0))


@implements("nan_to_num", by_class=True)
def nan_to_num(
    x: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Any:
    if not x.dtype.is_float:
        return x
    largest = float(torch.finfo(getattr(torch, x.dtype.numpy_name)).max)
    result = hg.where(hg.isnan(x), 0.0 if nan is None else nan, x)
    result = hg.where(hg.equal(x, math.inf), largest if posinf is None else posinf, result)
    return hg.where(hg.equal(x, -math.inf), -largest if neginf is None else neginf, result)


@implements("frexp.Tensor")
def frexp(x: Any) -> Any:
    return hg.mantissa(x), hg.exponent(x)


@implements("flip", by_class=True)
def flip(x: Any, dims: list[int]) -> Any:
    """Of no axes named none is turned, and a tensor without axes has none."""
    return hg.flip(x, axis=tuple(dims)) if dims and x.ndim else x


@implements("nextafter", promotes=SAME)
def nextafter(x: Any, y: Any) -> Any:
    dtype = next(v.dtype for v in (x, y) if isinstance(v, Tensor))
    if dtype.bits != 16:
        return hg.nextafter(x, y)
    shape = torch.broadcast_shapes(*(v.shape for v in (x, y) if isinstance(v, Tensor)))
    engine = next(v.executor for v in (x, y) if isinstance(v, Tensor))
    wide = (v.astype("f32") if isinstance(v, Tensor) else engine.full(shape, v) for v in (x, y))
    return _neighbour(dtype, *wide)


def _neighbour(dtype: Any, x: Any, y: Any) -> Any:
    """The next number of a narrow dtype, computed in f32: half a unit in the last place further rounds to it."""
    digits, least = dtype.mantissa, dtype.least_exponent
    power = hg.where(hg.equal(x, 0.0), least, hg.maximum(hg.exponent(x) - 1, least))
    upwards = hg.greater(y, x)
    shrinks = hg.not_equal(hg.greater(x, 0.0), upwards)
    border = hg.logical_and(
        shrinks, hg.logical_and(hg.equal(hg.abs(hg.mantissa(x)), 0.5), hg.greater(power, least))
    )
    unit = hg.exp2((power - digits - border.astype("i32")).astype("f32"))
    moved = hg.where(upwards, x + unit, x - unit)
    back = hg.where(hg.equal(hg.abs(x), math.inf), hg.multiply(hg.sign(x), dtype.largest), moved)
    result = hg.where(hg.equal(x, y), y, back)
    result = hg.where(hg.logical_and(hg.equal(result, 0.0), hg.less(x, 0.0)), -0.0, result)
    return hg.where(hg.logical_or(hg.isnan(x), hg.isnan(y)), math.nan, result).astype(dtype)


def _equal(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether all elements are, which has to be waited for."""
    if x.device != y.device:
        raise RuntimeError(
            f"hologram, equal: Expected all tensors to be on the same device, got {x.device}, {y.device}"
        )
    return x.shape == y.shape and (not x.numel() or bool((x == y).all()))


register("equal", _equal)


def _assert_async(
    x: torch.Tensor, words: str = "Expected Tensor with single nonzero value, but got zero"
) -> None:
    """Raises where the one element of a tensor is 0."""
    if x.numel() != 1:
        raise RuntimeError(f"hologram, _assert_async: one element is needed, got shape {tuple(x.shape)}")
    refuse("_assert_async", hg.equal(hologram_tensor(x).reshape(()), 0), words)


register("_assert_async", _assert_async)
register("_assert_async.msg", _assert_async)


@implements("polygamma")
def polygamma(n: int, x: Any) -> Any:
    """(-1)^(n + 1) n! zeta(n + 1, x), from the second derivative on."""
    if n < 2:
        return (hg.digamma, hg.trigamma)[n](x)
    x = x if x.dtype.is_float else x.astype("f32")
    return hg.multiply(hg.zeta(float(n + 1), x), math.factorial(n) * (-1.0) ** (n + 1))


# Functions of two numbers, one of which may be a number of Python's.
for _name in (
    *(f"chebyshev_polynomial_{kind}" for kind in "tuvw"),
    *(f"shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"),
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
):
    implements(f"special_{_name}", f"special_{_name}.x_scalar", f"special_{_name}.n_scalar", promotes=FLOAT)(
        getattr(hg, _name)
    )
implements("special_zeta", "special_zeta.self_scalar", "special_zeta.other_scalar", promotes=FLOAT)(hg.zeta)


def _shifts(operator: str, function: Callable[..., Any]) -> None:
    """Python's << and >>, which ATen has under names of their own."""
    for overload in ("Tensor", "Scalar"):
        register(f"__{operator}__.{overload}", lambda x, y: function(x, y))


_shifts("lshift", torch.Tensor.bitwise_left_shift)
_shifts("rshift", torch.Tensor.bitwise_right_shift)
_shifts("ilshift", torch.Tensor.bitwise_left_shift_)
_shifts("irshift", torch.Tensor.bitwise_right_shift_)
