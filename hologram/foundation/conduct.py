"""What the standards of GPUs leave to a driver's arithmetic, in words: what holds where a driver keeps each.

A backend asks its driver (backends/webgpu/native/conduct.py), `Limits.shortfalls` has the words of those it does not
keep, and HOLOGRAM_WITHOUT takes them, so that any machine can run what is computed instead.
"""

CONDUCT = {
    "denormals": "numbers below 2^-126 are computed with, not taken for 0",
    "nan": "x - x, x / x and x * 0 are NaN where x is infinite or NaN",
    "choices": "x < y ? x : y is what it says where one is NaN or both are zeros",
    "infinities": "what is too large is infinite, and infinities are computed with",
    "zeros": "zeros keep their signs",
    "order": "sums and products are computed in the order that is written",
    "contraction": "a product is rounded before it is added",
    "fused": "fma rounds once",
    "rounding": "quotients and square roots are the nearest numbers",
    "division": "a divisor may be any number",
    "remainder": "integers' remainders have the sign of the dividend",
    "loops": "loops take as many turns as they like",
    "cleared": "workgroup memory begins as zeros",
}
# Of them those that nothing is computed in place of, and that results need which are to be the same everywhere.
IEEE = ("infinities", "rounding")
