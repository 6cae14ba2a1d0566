"""Derivatives of functions that complex numbers have too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hologram.atlas.complex_parts import conjugate


def holomorphic(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule as it is for real numbers; of complex ones it multiplies the cotangent by the derivative's conjugate.

    That is so for functions with a complex derivative alone, and rules that are linear in the cotangent.
    """

    @functools.wraps(rule)
    def conjugated(cotangent: Any, **known: Any) -> Any:
        return conjugate(rule(cotangent=conjugate(cotangent), **known))

    return conjugated
