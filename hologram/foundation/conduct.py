"""What the standards of GPUs leave to a driver's arithmetic, in words: what holds where a driver keeps each.

A backend asks its driver (backends/webgpu/native/conduct.py), `Limits.shortfalls` has the words of those it does not
keep, and HOLOGRAM_WITHOUT takes them, so that any machine can run what is computed instead.
"""

from __future__ import annotations

from hologram.foundation.frozen import frozen

RIGHT = "results are right, and there is nothing to do"
BOUNDS = "the bounds of docs/operations.md count it in, and there is nothing to do"


@frozen
class Conduct:
    """One of them: what holds where it is kept; elsewhere what the driver and hologram do, and what a user may."""

    kept: str
    otherwise: str


CONDUCT = {
    "denormals": Conduct(
        "numbers below 2^-126 are computed with, not taken for 0",
        "the driver takes numbers below 2^-126 for 0, as most GPUs do, and hologram leaves that; who needs them opens "
        "an Executor(reproducible=True)",
    ),
    "nan": Conduct(
        "x - x, x / x and x * 0 are NaN where x is infinite or NaN",
        "the driver may give 0 or 1 for x - x, x * 0 and x / x where x is infinite or NaN; hologram asks the bits of x "
        f"there: {RIGHT}",
    ),
    "choices": Conduct(
        "x < y ? x : y is what it says where one is NaN or both are zeros",
        "the driver may choose the other side where one of two compared numbers is NaN or both are zeros; hologram "
        f"chooses their bits instead: {RIGHT}",
    ),
    "infinities": Conduct(
        "what is too large is infinite, and infinities are computed with",
        "the driver computes with infinities as it likes, and hologram does nothing about it: where numbers overflow, "
        "results may be others than NumPy's; use another driver or backend if that matters to you",
    ),
    "zeros": Conduct(
        "zeros keep their signs",
        "the driver may give 0.0 for -0.0, and hologram leaves that: it shows in signs of zeros alone, and in what is "
        "made of them (1 / x, atan2, copysign); there is nothing to do",
    ),
    "order": Conduct(
        "sums and products are computed in the order that is written",
        "the driver may rearrange sums and products; hologram hides from it those whose results depend on their "
        f"order: {RIGHT}",
    ),
    "contraction": Conduct(
        "a product is rounded before it is added",
        "the driver may add a product before it is rounded; hologram hides those whose results depend on it: "
        f"{RIGHT}",
    ),
    "fused": Conduct("fma rounds once", f"the driver rounds a * b + c twice where it says once: {BOUNDS}"),
    "rounding": Conduct(
        "quotients and square roots are the nearest numbers",
        f"the driver's quotients and square roots may be off in the last digit: {BOUNDS}, but reproducible executors "
        "cannot be opened",
    ),
    "division": Conduct(
        "a divisor may be any number",
        "the driver may give wrong quotients where divisors are 2^126 or larger; hologram divides a quarter of both: "
        f"{RIGHT}",
    ),
    "remainder": Conduct(
        "integers' remainders have the sign of the dividend",
        "the driver's remainders of negative integers have other signs; hologram computes x - x / y * y instead: "
        f"{RIGHT}",
    ),
    "loops": Conduct(
        "loops take as many turns as they like",
        "the driver ends loops of more than 65,535 turns without a word; hologram splits or watches long ones: results "
        "are right, and long loops of your own kernels are slower; a newer driver (Mesa 26) has no such limit",
    ),
    "cleared": Conduct(
        "workgroup memory begins as zeros",
        "the driver may begin a kernel with old numbers in workgroup memory; hologram's kernels clear theirs: "
        f"{RIGHT}",
    ),
}
# Of them those that nothing is computed in place of, and that results need which are to be the same everywhere.
IEEE = ("infinities", "rounding")
