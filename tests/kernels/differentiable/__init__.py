"""Thirty kernels with gradients, each for any dtype of floats, and those that have none, with the reason."""

from tests.kernels.differentiable import control, elements, values

CASES = [*elements.CASES, *control.CASES, *values.CASES]
