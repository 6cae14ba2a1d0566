"""numexpr: expressions compiled once, run with out=."""

# pyright: reportMissingImports=false

from __future__ import annotations

import os
import re

import numexpr
import numpy as np

from hologram.benchmark.jobs import Job
from hologram.benchmark.models.declared import Arrays
from hologram.benchmark.works import Work

EXPRESSIONS = {
    "add": "x + y",
    "multiply": "x * y",
    "relu": "where(x > zero, x, zero)",
    "exp": "exp(x)",
    "tanh": "tanh(x)",
    "sum": "sum(x)",
    "chain": "tanh(b) / (one + exp(-(a * b + a))) + exp(a)",
}
CONSTANTS = {"zero": np.float32(0), "one": np.float32(1)}  # a Python number would make it compute in float64


class NumExpr:
    device = "cpu"

    def __init__(self) -> None:
        numexpr.set_num_threads(int(os.environ["BENCH_THREADS"]))

    def prepare(self, work: Work, inputs: Arrays) -> Job | None:
        expression = EXPRESSIONS.get(work.name)
        if expression is None:  # erf, and expressions around a reduction, are not in its language
            return None
        values = {**inputs, **CONSTANTS}
        names = [n for n in values if re.search(rf"\b{n}\b", expression)]
        compiled = numexpr.NumExpr(expression, signature=[(n, float) for n in names])  # float is its f32
        arguments = [values[n] for n in names]
        if work.reduced:

            def total() -> np.ndarray:
                return np.array(compiled(*arguments, ex_uses_vml=False))

            return Job(total, total)
        out = np.empty_like(next(iter(inputs.values())))
        return Job(lambda: compiled(*arguments, out=out, ex_uses_vml=False), out.copy)


def open_contender(name: str, where: str) -> NumExpr:
    return NumExpr()
