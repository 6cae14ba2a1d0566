"""Random programs give the same result in the evaluator, compiled by LLVM, and as WGSL: one property on every backend."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import hologram as hg
from hologram import dtypes
from hologram.atlas.evaluate import evaluate
from hologram.dtypes import DType
from tests.programs import Case, programs

# In CI the same programs every time; elsewhere new ones.
BOUNDED = settings(
    max_examples=40,
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    print_blob=True,
    phases=[p for p in Phase if p is not Phase.explain],
    suppress_health_check=list(HealthCheck),
)


def run(executor: hg.Executor, case: Case) -> dict[str, np.ndarray]:
    """What the executor makes of the case's buffers."""
    buffers = {n: executor.allocate(a.shape, a.dtype).from_numpy(a) for n, a in case.buffers.items()}
    executor.run(case.program, buffers, lanes=case.grid, **case.scalars)
    return {n: b.to_numpy() for n, b in buffers.items()}


def evaluated(case: Case) -> dict[str, np.ndarray]:
    """What the definition of the instruction set says."""
    buffers = {name: array.copy() for name, array in case.buffers.items()}
    evaluate(case.program, buffers, case.scalars, case.grid)
    return buffers


def comparable(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Floats as f64, where zeros have no sign and denormals, which a GPU may flush, are zeros; all NaNs are one."""
    if not dtype.is_float:
        return array
    wide = array.astype(np.float64)
    smallest = float(np.finfo(array.dtype).tiny) if dtype is not dtypes.bf16 else float(np.finfo(np.float32).tiny)
    return np.where(np.abs(wide) < smallest, 0.0, wide)


@BOUNDED
@given(data=st.data())
def test_exact_programs_agree_to_the_bit(data: st.DataObject, executor: hg.Executor) -> None:
    known = tuple(d for d in dtypes.ALL if d in executor.limits.dtypes)
    case = data.draw(programs(known, exact=True))
    got, want = run(executor, case), evaluated(case)
    for parameter in case.program.buffers:
        name, dtype = parameter.name, parameter.dtype
        np.testing.assert_array_equal(
            comparable(got[name], dtype), comparable(want[name], dtype), err_msg=f"{name} of {case.program}"
        )
