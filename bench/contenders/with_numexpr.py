"""numexpr: expressions compiled once, run with out=."""

# pyright: reportMissingImports=false

from __future__ import annotations

import os

import numexpr
import numpy as np

from bench.contenders import Job
from bench.work import Arrays

EXPRESSIONS = {
    "add": "x + y",
    "mul": "x * y",
    "relu": "where(x > zero, x, zero)",
    "exp": "exp(x)",
    "tanh": "tanh(x)",
    "sum": "sum(x)",
}


class NumExpr:
    device = "cpu"

    def __init__(self) -> None:
        numexpr.set_num_threads(int(os.environ["BENCH_THREADS"]))

    def prepare(self, work: str, inputs: Arrays) -> Job | None:
        expression = EXPRESSIONS.get(work)
        if expression is None:  # erf, and expressions around a reduction, are not in its language
            return None
        names = [n for n in ("x", "y", "zero") if n in expression]
        compiled = numexpr.NumExpr(expression, signature=[(n, float) for n in names])  # float is its f32
        arguments = [np.float32(0) if n == "zero" else inputs[n] for n in names]
        if work == "sum":

            def total() -> np.ndarray:
                return np.array(compiled(*arguments, ex_uses_vml=False))

            return Job(total, total)
        out = np.empty_like(inputs["x"])
        return Job(lambda: compiled(*arguments, out=out, ex_uses_vml=False), out.copy)


def open_contender(suite: str) -> NumExpr:
    return NumExpr()
