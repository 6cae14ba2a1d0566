"""Passes: what HOLOGRAM_CHECK finds, and that it finds nothing in what random programs go through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hologram.atlas.opcodes import ACCESSES, Opcode
from hologram.atlas.program import Program
from hologram.atlas.rewrite import Unrolling
from hologram.backends.cuda.dialect import cuda
from hologram.backends.metal.dialect import msl
from hologram.backends.webgpu.wgsl.dialect import wgsl
from hologram.compiler.analysis.turns import Turns
from hologram.compiler.functions.transcendental import unless_scalar
from hologram.compiler.lowering.paging import Cut, contiguous
from hologram.compiler.passes import Goal, Stage
from hologram.compiler.pipeline import applied, chosen, formed, lower, planned, run
from hologram.compiler.recognition.specialise import specialised
from hologram.foundation import dtypes
from hologram.machine.plan import Plan, Step
from tests.programs import Case, programs
from tests.test_random_programs import BOUNDED

SMALL = frozenset(dtypes.ALL) - {dtypes.f64, dtypes.i64, dtypes.u64}
GOALS: dict[str, tuple[Goal, frozenset[dtypes.DType]]] = {
    "cpu": (Goal(lacks=unless_scalar, strict=True), frozenset(dtypes.ALL)),
    "webgpu": (Goal.language(wgsl()), frozenset(dtypes.ALL)),
    "webgpu with few dtypes": (Goal.language(wgsl(SMALL)), SMALL),
    "cuda": (Goal.language(cuda()), frozenset(dtypes.ALL)),
    "cuda beyond 2^32": (Goal.language(cuda(64)), frozenset(dtypes.ALL)),
    "metal": (Goal.language(msl()), frozenset(dtypes.ALL) - {dtypes.f64}),
}


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_CHECK", "1")


def everywhere(program: Program) -> frozenset[tuple[str, int]]:
    return frozenset((str(i.attribute), i.operands[0]) for i in program.body.walk() if i.opcode in ACCESSES)


@pytest.mark.parametrize("device", GOALS)
@pytest.mark.usefixtures("checked")
@BOUNDED
@given(data=st.data())
def test_random_programs_keep_their_results_on_the_way_to_a_language(
    data: st.DataObject, device: str
) -> None:
    goal, known = GOALS[device]
    program = data.draw(programs(tuple(d for d in dtypes.ALL if d in known))).program
    guarded = everywhere(program) if data.draw(st.booleans()) else frozenset()
    program = lower(program, replace(goal, guarded=guarded))
    if device.startswith("webgpu"):
        for step in chosen(Stage.LANGUAGE, replace(goal, unrolled=unrolled(program))):
            if step.name.startswith("unroll"):
                applied(step, program, replace(goal, unrolled=unrolled(program)))


def unrolled(program: Program) -> dict[int, Unrolling]:
    loops = [i.blocks[0].arguments[0] for i in program.body.walk() if i.opcode is Opcode.LOOP]
    return {loop: Unrolling(2) for loop in loops if program.types[loop] == dtypes.index}


@pytest.mark.parametrize("fast_math", [False, True])
@pytest.mark.usefixtures("checked")
@BOUNDED
@given(data=st.data())
def test_random_programs_keep_their_results_in_canonical_form(data: st.DataObject, fast_math: bool) -> None:
    formed(data.draw(programs()).program, fast_math=fast_math)
