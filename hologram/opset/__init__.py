"""Every operation of hologram, each declared once. Importing the package declares them all."""

from hologram.opset import (
    activation,
    attention,
    loss,
    math,
    matmul,
    movement,
    norm,
    random,
    reduce,
    scan,
    sort,
    window,
)
from hologram.opset.operation import OPERATIONS

__all__ = [
    "OPERATIONS",
    "activation",
    "attention",
    "loss",
    "math",
    "matmul",
    "movement",
    "norm",
    "random",
    "reduce",
    "scan",
    "sort",
    "window",
]
