"""Rounding, element by element. Names are those of the array API."""

from __future__ import annotations

import numpy as np

from hologram.atlas import functions as atlas
from hologram.foundation.dtypes import NUMBERS
from hologram.opset.forms import types
from hologram.opset.forms.map import elementwise
from hologram.opset.forms.samples import unary


def _rounding(function):
    return lambda x: x if np.asarray(x).dtype.kind in "iu" else function(x)


@elementwise(
    types=types.number, dtypes=NUMBERS, reference=_rounding(np.floor), samples=unary(), aten=("floor",)
)
def floor(x):
    """The largest integer not above x."""
    return atlas.floor(x) if x.dtype.is_float else x


@elementwise(
    types=types.number, dtypes=NUMBERS, reference=_rounding(np.ceil), samples=unary(), aten=("ceil",)
)
def ceil(x):
    """The smallest integer not below x."""
    return atlas.ceil(x) if x.dtype.is_float else x


@elementwise(
    types=types.number, dtypes=NUMBERS, reference=_rounding(np.trunc), samples=unary(), aten=("trunc",)
)
def trunc(x):
    """The integer part."""
    return atlas.trunc(x) if x.dtype.is_float else x
