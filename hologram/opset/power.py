"""Powers, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from hologram.atlas import functions as atlas
from hologram.foundation.dtypes import COMPLEX, NUMBERS, DType, Number
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.opset.forms import types
from hologram.opset.forms.accuracy import QUOTIENT
from hologram.opset.forms.map import Elementwise
from hologram.opset.forms.numpy_elementwise import numpy_elementwise
from hologram.opset.forms.operation import Attributes, Inputs
from hologram.opset.forms.samples import binary


def _pow_reference(x, y):
    if np.asarray(x).dtype.kind in "iu":
        base, exponent = np.broadcast_arrays(x, y)
        kept = np.power(base, np.where(exponent < 0, 0, exponent).astype(base.dtype))
        inverse = np.where(base == 1, 1, np.where(base == -1, np.where(exponent % 2, -1, 1), 0)).astype(
            base.dtype
        )
        return np.where(exponent < 0, inverse, kept)
    return np.power(x, y)


def _refuse_negative(x: Any, exponent: Any) -> None:
    """Raises ValueError for integers to the power of a negative integer that is a number, as NumPy does."""
    dtype = getattr(x, "dtype", None)
    if type(exponent) is int and exponent < 0 and isinstance(dtype, DType) and dtype.is_integer:
        raise ValueError(
            f"pow: Integers to negative integer powers are not allowed, got {dtype} to the {exponent}"
        )


@frozen(eq=False, repr=False)
class Power(Elementwise):
    """Kernels know exponents that products, roots and quotients make: a thirtieth of the cost of a general power."""

    @property
    def hands_numbers_on(self) -> bool:
        return False

    def writes(self, name: str, number: Number) -> bool:
        return name == "y" and abs(number) <= 64 and (number == int(number) or number in (-0.5, 0.5, 1.5))

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        if self is pow_:  # its derivatives are of this form too
            _refuse_negative(*inputs)
        return super().infer(inputs, attributes)


@numpy_elementwise(
    Power, types=types.number, dtypes=NUMBERS + COMPLEX, parts_ulp=64, reference=_pow_reference,
    samples=lambda rng, d: binary(-4, 9, not d.is_complex, second=(-3, 7))(rng, d), ulp=2, looser=(QUOTIENT,),
    aten=("pow.Tensor_Tensor", "pow.Tensor_Scalar"), out_names=("vector_pow",))  # fmt: skip
def pow_(x, y):
    """x to the power y. Integers wrap.

    A negative integer number as the exponent of integers raises ValueError; in a tensor it gives 0 unless x is 1 or -1.
    """
    return atlas.power(x, y)
