"""Element-wise operations that are a function of NumPy's of the same name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from hologram.opset.forms.map import Elementwise
from hologram.opset.forms.operation import Operation, declared
from hologram.opset.forms.samples import binary, ternary, unary


def numpy_elementwise(
    form: type[Elementwise] = Elementwise, **facts: Any
) -> Callable[[Callable[..., Any]], Operation]:
    """As `elementwise`: the reference is NumPy's function of that name, samples are of as many operands as it takes."""

    def declare(function: Callable[..., Any]) -> Operation:
        reference = getattr(np, function.__name__.rstrip("_"))
        samples = (unary, binary, ternary)[len(inspect.signature(function).parameters) - 1]
        return declared(form, **{"reference": reference, "samples": samples(), **facts})(function)

    return declare
