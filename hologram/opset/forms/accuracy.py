"""Why a function is less exact on some devices: what they lack, and what that costs."""

from __future__ import annotations

from collections.abc import Callable

from hologram.foundation.frozen import frozen
from hologram.machine.limits import Limits


@frozen
class Loss:
    """Units in the last place that a function loses where `spared` does not hold."""

    ulp: float
    spared: Callable[[Limits], bool]
    where: str  # in words


# 2.5 ULP is what WGSL (and Vulkan beneath) promises of a quotient; its square root is one over an inverse square root.
QUOTIENT = Loss(2.0, lambda limits: limits.exact_division, "division is not exact")
# Evaluated with two roundings for each term; the range reduction keeps its bits all the same.
POLYNOMIAL = Loss(1.0, lambda limits: limits.fused_multiply_add, "multiply-add is not fused")
