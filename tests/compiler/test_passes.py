"""Passes: what HOLOGRAM_CHECK finds, and that it finds nothing in what random programs go through."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hologram as hg
from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select, sin
from hologram.atlas.opcodes import ACCESSES, Opcode
from hologram.atlas.program import Access, Block, Instruction, Program
from hologram.atlas.rewrite import Unrolling, rewrite
from hologram.atlas.text import parse_program
from hologram.backends.cuda.dialect import cuda
from hologram.backends.metal.dialect import msl
from hologram.backends.webgpu.wgsl.dialect import wgsl
from hologram.compiler import pipeline
from hologram.compiler.functions.transcendental import unless_scalar
from hologram.compiler.lowering.bounds import GUARD
from hologram.compiler.lowering.paging import Cut, contiguous
from hologram.compiler.lowering.unrolling import UNROLL
from hologram.compiler.passes import EXACT, Goal, Pass, Promise, Stage
from hologram.compiler.pipeline import formed, lower
from hologram.compiler.recognition.specialise import specialised
from hologram.compiler.scheduling.split import SPREAD
from hologram.foundation import dtypes
from hologram.foundation.dtypes import f32, i16, i32, index
from hologram.machine.plan import Step
from tests.compiler.source.test_native import LIMITS
from tests.programs import Case, programs
from tests.test_random_programs import BOUNDED

SMALL = frozenset(dtypes.COMPUTED) - {dtypes.f64, dtypes.i64, dtypes.u64}
GOALS: dict[str, tuple[Goal, frozenset[dtypes.DType]]] = {
    "cpu": (Goal(lacks=unless_scalar, strict=True), frozenset(dtypes.COMPUTED)),
    "webgpu": (Goal.language(wgsl()), frozenset(dtypes.COMPUTED)),
    "webgpu with few dtypes": (Goal.language(wgsl(SMALL)), SMALL),
    "cuda": (Goal.language(cuda()), frozenset(dtypes.COMPUTED)),
    "cuda beyond 2^32": (Goal.language(cuda(64)), frozenset(dtypes.COMPUTED)),
    "metal": (Goal.language(msl()), frozenset(dtypes.COMPUTED) - {dtypes.f64}),
}


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_CHECK", "1")


def everywhere(program: Program) -> frozenset[tuple[str, int]]:
    return frozenset((str(i.attribute), i.operands[0]) for i in program.body.walk() if i.opcode in ACCESSES)


@pytest.mark.parametrize("device", GOALS)
@pytest.mark.parametrize("dtype", dtypes.STORED, ids=str)
@pytest.mark.usefixtures("checked")
def test_codes_of_dtypes_that_are_only_stored_are_held_to_their_numbers(
    dtype: dtypes.DType, device: str
) -> None:
    b = Builder("narrowed")
    source, target = b.buffer("x", dtype, Access.READ), b.buffer("out", dtype, Access.WRITE)
    at = b.coordinate(0)
    b.store(target, at, sin(b.load(source, at).to(f32)).to(dtype))
    lowered = lower(pipeline.held(b.build()), GOALS[device][0])
    assert all(buffer.dtype.is_integer for buffer in lowered.buffers)


@pytest.mark.parametrize("device", GOALS)
@pytest.mark.usefixtures("checked")
@BOUNDED
@given(data=st.data())
def test_random_programs_keep_their_results_on_the_way_to_a_language(
    data: st.DataObject, device: str
) -> None:
    goal, known = GOALS[device]
    program = data.draw(programs(tuple(d for d in dtypes.COMPUTED if d in known))).program
    guarded = everywhere(program) if data.draw(st.booleans()) else frozenset()
    found = lower(program, replace(goal, guarded=guarded))
    unrolled = {loop: Unrolling(data.draw(st.integers(2, 3))) for loop in loops(found)}
    pipeline.applied(UNROLL, found, replace(goal, unrolled=unrolled))


def loops(program: Program) -> list[int]:
    """The counters of loops that count in an index."""
    found = [i.blocks[0].arguments[0] for i in program.body.walk() if i.opcode is Opcode.LOOP]
    return [loop for loop in found if program.types[loop] == index]


@pytest.mark.parametrize("fast_math", [False, True])
@pytest.mark.usefixtures("checked")
@BOUNDED
@given(data=st.data())
def test_random_programs_keep_their_results_in_canonical_form(data: st.DataObject, fast_math: bool) -> None:
    formed(data.draw(programs()).program, fast_math=fast_math)


@pytest.mark.usefixtures("checked")
@BOUNDED
@given(case=programs(), data=st.data())
def test_random_programs_keep_their_results_for_a_launch_and_its_memory(
    case: Case, data: st.DataObject
) -> None:
    program, grid, scalars = case.program, case.grid, tuple(case.scalars.values())
    specialised(program, grid, scalars)
    cut = Cut(0, data.draw(st.sampled_from([frozenset(), contiguous(program, 0)])))
    first: dict[dtypes.DType, int] = {}
    shared = tuple(first.setdefault(b.dtype, k) for k, b in enumerate(program.buffers))
    for goal in (Goal(cut=cut), Goal(shared=shared)):
        pipeline.run(Stage.BINDING, program, goal)
    if program.reduced:
        step = Step(program, tuple(range(len(program.buffers))), scalars, grid)
        pipeline.applied(SPREAD, step, Goal(limits=LIMITS, parts=2))


# Wrong rewrites, planted.


def changed(rule: Callable[..., Any]) -> Callable[[Program, Goal], Program]:
    return lambda program, goal: rewrite(program, rule)


def zero_is_neutral(b: Builder, i: Instruction, operands: list[Value]) -> Value | None:
    """x + 0 is x: not where x is -0.0."""
    if i.opcode is Opcode.ADD and i.type.is_float:
        return select(operands[1] == 0.0, operands[0], operands[0] + operands[1])
    return None


def smaller(b: Builder, i: Instruction, operands: list[Value]) -> Value | None:
    """min is x < y ? x : y: not where y is NaN's other side."""
    return select(operands[0] < operands[1], *operands) if i.opcode is Opcode.MIN else None


def swapped(b: Builder, i: Instruction, operands: list[Value]) -> Value | None:
    return operands[1] - operands[0] if i.opcode is Opcode.SUB else None


def narrower(b: Builder, i: Instruction, operands: list[Value]) -> Value | None:
    """Sums of 32 bits computed in 16."""
    if i.opcode is Opcode.ADD and i.type == i32:
        return (operands[0].to(i16) + operands[1].to(i16)).to(i32)
    return None


def without_wrapping(b: Builder, i: Instruction, operands: list[Value]) -> Value | None:
    """Shifts count modulo the width."""
    return operands[0] << (operands[1] & 31) if i.opcode is Opcode.SHL else None


def inexact(b: Builder, i: Instruction, operands: list[Value]) -> Value | None:
    return expression(b, operands[0]) if i.opcode is Opcode.EXP else None


def expression(b: Builder, x: Value) -> Value:
    return b.emit(Opcode.EXP, x.dtype, x * 1.00001)


def without_last_store(program: Program, goal: Goal) -> Program:
    *kept, _ = program.body.instructions
    return replace(program, body=replace(program.body, instructions=tuple(kept)))


def bounded(less: int) -> Callable[[Program, Goal], Program]:
    def apply(program: Program, goal: Goal) -> Program:
        def rule(b: Builder, i: Instruction, operands: list[Value]) -> Value | None:
            wrong = i.opcode is Opcode.LT and operands[0].dtype == index
            return operands[0] < operands[1] + less if wrong else None

        return rewrite(GUARD.apply(program, goal), rule)

    return apply


def a_round_less(program: Program, goal: Goal) -> Program:
    """Unrolled by two, without the round that is left over."""
    found = rewrite(program, unrolled=dict.fromkeys(loops(program), Unrolling(2)))
    *_, last = (i for i in found.body.instructions if i.opcode is Opcode.LOOP)
    first = dict(zip(last.results, last.operands[3:], strict=True))
    body = [i for i in found.body.instructions if i is not last]
    renamed = [replace(i, operands=tuple(first.get(v, v) for v in i.operands)) for i in body]
    return replace(found, body=Block(tuple(renamed)))


def miscounted(program: Program, goal: Goal) -> Program:
    """Reads what the program may only write."""
    name = program.buffers[-1].name
    return replace(
        program,
        buffers=tuple(replace(b, access=Access.READ) if b.name == name else b for b in program.buffers),
    )


SUMS = """program sums rank 1 reduced 0
buffer x : {0} read
buffer y : {0} read
buffer out : {0} write
%0 = coordinate 0 : index
%1 = load x %0 : {0}
%2 = load y %0 : {0}
%3 = {1} %1, %2 : {0}
store out %0, %3
"""
FUNCTION = """program function rank 1 reduced 0
buffer x : f32 read
buffer out : f32 write
%0 = coordinate 0 : index
%1 = load x %0 : f32
%2 = exp %1 : f32
store out %0, %2
"""
LOOP = """program powers rank 1 reduced 0
buffer out : i32 write
scalar n : index
%0 = coordinate 0 : index
%1 = scalar n : index
%2 = constant 0 : index
%3 = constant 1 : index
%4 = constant 1 : i32
%5 = constant 3 : i32
%6 = loop %2, %1, %3, %4 (%7 : index, %8 : i32) : i32
  %9 = mul %8, %5 : i32
  yield %9
end
store out %0, %6
"""
F32 = Promise(frozenset({Opcode.EXP}), ulp=2.4)
PLANTED = {
    "x + 0 is x": (changed(zero_is_neutral), SUMS.format("f32", "add"), EXACT),
    "min by a comparison": (changed(smaller), SUMS.format("f32", "min"), EXACT),
    "operands in the other order": (changed(swapped), SUMS.format("f32", "sub"), EXACT),
    "sums of half the width": (changed(narrower), SUMS.format("i32", "add"), EXACT),
    "shifts modulo the width": (changed(without_wrapping), SUMS.format("i32", "shl"), EXACT),
    "a store that is lost": (without_last_store, SUMS.format("f32", "add"), EXACT),
    "a function beyond its error": (changed(inexact), FUNCTION, F32),
    "a bound too far": (bounded(1), SUMS.format("f32", "add"), EXACT),
    "a bound too near": (bounded(-1), SUMS.format("f32", "add"), EXACT),
    "a round too few": (a_round_less, LOOP, EXACT),
    "a rule of the instruction set": (miscounted, SUMS.format("f32", "add"), EXACT),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_rewrite_is_found_by_the_name_of_its_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    apply, text, promise = PLANTED[name]
    planted = Pass(name, "none", Stage.LANGUAGE, apply, promise=promise)
    if "bound" in name:
        planted = replace(GUARD, name=name, apply=apply)
    kept = [step for step in pipeline.PASSES if step is not GUARD]
    monkeypatch.setattr(pipeline, "PASSES", (planted, *kept))
    program = parse_program(text)
    goal = replace(Goal.language(cuda()), guarded=everywhere(program))
    lower(program, goal)  # nobody looks
    monkeypatch.setenv("HOLOGRAM_CHECK", "1")
    found = f"the pass '{re.escape(name)}' (changes the result|breaks a rule)"
    with pytest.raises(hg.CompileError, match=found) as error:
        lower(program, goal)
    before, after = str(error.value).partition("\nbefore\n")[2].split("\nafter\n")
    assert parse_program(before) == program
    assert after.strip() == str(apply(program, goal)).strip() == error.value.source.strip()
