"""Random programs give the same result in the evaluator, compiled by LLVM, and as WGSL."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import hologram as hg
from hologram.atlas.evaluate import evaluate
from hologram.atlas.text import parse_program
from hologram.atlas.verify import verify
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from tests.needs import needs
from tests.programs import Case, programs

# In CI the same programs every time; elsewhere new ones.
BOUNDED = settings(
    max_examples=40,
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    print_blob=True,
    phases=[p for p in Phase if p is not Phase.explain],
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
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
    smallest = (
        float(np.finfo(array.dtype).tiny) if dtype is not dtypes.bf16 else float(np.finfo(np.float32).tiny)
    )
    return np.where(np.abs(wide) < smallest, 0.0, wide)


@BOUNDED
@given(data=st.data())
def test_exact_programs_agree_to_the_bit(data: st.DataObject, executor: hg.Executor) -> None:
    known = tuple(d for d in dtypes.COMPUTED if d in executor.limits.dtypes)
    case = data.draw(programs(known, exact=True))
    got, want = run(executor, case), evaluated(case)
    for parameter in case.program.buffers:
        name, dtype = parameter.name, parameter.dtype
        np.testing.assert_array_equal(
            comparable(got[name], dtype), comparable(want[name], dtype), err_msg=f"{name} of {case.program}"
        )


@pytest.mark.parametrize("dtype", [d for d in dtypes.COMPUTED if d is not dtypes.bool_], ids=str)
def test_positions_convert_to_every_number(dtype: DType, executor: hg.Executor) -> None:
    needs(executor, dtype)
    text = f"""program places rank 1 reduced 0
buffer out : {dtype} write
%0 = coordinate 0 : index
%1 = convert %0 : {dtype}
store out %0, %1
"""
    case = Case(parse_program(text), {"out": np.zeros(3000, dtype.numpy)}, {}, (3000,))
    np.testing.assert_array_equal(run(executor, case)["out"], evaluated(case)["out"])


CONSTANTS = [(3, 2), (0, 0), (7, 40), (5, 1)]


@pytest.mark.parametrize(
    "opcode", ["abs", "neg", "floor", "round", "sqrt", "div", "rem", "shl", "shr", "min", "eq"]
)
def test_operations_on_constants_alone(opcode: str, executor: hg.Executor) -> None:
    """WGSL's compiler computes them itself, and refuses 0 / 0, shifts past the width and functions of f64."""
    for dtype in dtypes.COMPUTED:
        if dtype not in executor.limits.dtypes:
            continue
        for x, y in CONSTANTS if opcode in ("div", "rem", "shl", "shr", "min", "eq") else CONSTANTS[:2]:
            text = constant_program(opcode, dtype, x, y)
            try:
                case = Case(parse_program(text), {}, {}, (3,))
                verify(case.program)
            except hg.ProgramError:  # the opcode is not for this dtype
                continue
            held = dtypes.bool_ if opcode == "eq" else dtype
            case = Case(case.program, {"out": np.zeros(3, held.numpy)}, {}, (3,))
            got, want = run(executor, case)["out"], evaluated(case)["out"]
            np.testing.assert_array_equal(comparable(got, held), comparable(want, held), err_msg=text)


def constant_program(opcode: str, dtype: DType, x: int, y: int) -> str:
    kind = float if dtype.is_float else int
    operands = "%1, %2" if opcode in ("div", "rem", "shl", "shr", "min", "eq") else "%1"
    result = "bool" if opcode == "eq" else dtype
    # The name is one that the generators use themselves.
    return f"""program p rank 1 reduced 0
buffer out : {result} write
%0 = coordinate 0 : index
%1 = constant {kind(x)} : {dtype}
%2 = constant {kind(y)} : {dtype}
%3 = {opcode} {operands} : {result}
store out %0, %3
"""
