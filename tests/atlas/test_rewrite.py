"""Rewriting keeps programs, changes dtypes through structure, and lets one value become several."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hologram.atlas.builder import Builder, Value
from hologram.atlas.evaluate import evaluate
from hologram.atlas.functions import exp
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Instruction, Program
from hologram.atlas.rewrite import Parameters, Replacement, rewrite
from hologram.foundation.dtypes import DType, f32, i8, i32, i64, u32
from hologram.foundation.errors import ProgramError


def structured(dtype: DType) -> Program:
    """out = x * 2^4 + a where that exceeds x, else x."""
    b = Builder("atlas_test")
    x, out = b.buffer("x", dtype, Access.READ), b.buffer("out", dtype, Access.WRITE)
    a = b.scalar("a", dtype)
    i = b.coordinate(0)
    v = b.load(x, i)
    (doubled,) = b.loop(0, 4, lambda k, c: (c + c,), first=(v,))
    (result,) = b.if_(doubled > v, lambda: (doubled + a,), lambda: (v,))
    b.store(out, i, result)
    return b.build()


def test_keeping_everything_keeps_the_program() -> None:
    assert rewrite(structured(f32), lambda *_: None) == structured(f32)


def test_duplicates_that_a_rule_makes_merge() -> None:
    b = Builder("atlas_test")
    x = b.buffer("x", f32, Access.READ_WRITE)
    i = b.coordinate(0)
    v = b.load(x, i)
    b.store(x, i, exp(v) * exp(-v))

    def rule(builder: Builder, instruction: Instruction, operands: list[Value]) -> Value | None:
        return operands[0] if instruction.opcode is Opcode.NEG else None

    counted = [i.opcode for i in rewrite(b.build(), rule).body.walk()].count(Opcode.EXP)
    assert counted == 1


def test_dtypes_follow_through_loops_and_branches() -> None:
    def rule(builder: Builder, instruction: Instruction, operands: list[Value]) -> Value | None:
        if (
            not operands
            or not instruction.types
            or instruction.type != i8
            or instruction.opcode is Opcode.LOAD
        ):
            return None
        return builder.emit(instruction.opcode, i32, *operands)

    wide = Parameters(buffer=lambda b: replace(b, dtype=i32), scalar=lambda s: (replace(s, dtype=i32),))
    p = rewrite(structured(i8), rule, parameters=wide)
    assert i8 not in p.types.values()
    x = np.array([100, -3], np.int32)
    out = np.empty_like(x)
    evaluate(p, {"x": x, "out": out}, {"a": 7}, (2,))
    assert out.tolist() == [1607, -3]


def test_a_value_may_become_two() -> None:
    """i64 sums as two u32 with a carry, through a loop and an if."""

    def rule(b: Builder, instruction: Instruction, operands: list[Any]) -> Replacement | None:
        opcode = instruction.opcode
        if opcode in (Opcode.LOAD, Opcode.SCALAR):
            whole = b.scalar("a", i64) if opcode is Opcode.SCALAR else b.load(source, operands[0])
            return whole.to(u32), (whole >> 32).to(u32)
        if opcode is Opcode.ADD:
            (xl, xh), (yl, yh) = operands
            low = xl + yl
            return low, xh + yh + (low < xl).to(u32)
        if opcode is Opcode.GT:
            (xl, xh), (yl, yh) = operands
            return (xh.bitcast(i32) > yh.bitcast(i32)) | ((xh == yh) & (xl > yl))
        if opcode is Opcode.STORE:
            low, high = operands[1]
            b.store(target, operands[0], (high.to(i64) << 32) | low.to(i64))
            return ()
        return None

    p = structured(i64)
    source, target = p.buffers
    x = np.array([2**40 + 5, -(2**35) - 1, 2**31], np.int64)
    got, want = np.empty_like(x), np.empty_like(x)
    evaluate(rewrite(p, rule), {"x": x, "out": got}, {"a": 2**32 - 1}, (3,))
    evaluate(p, {"x": x, "out": want}, {"a": 2**32 - 1}, (3,))
    assert got.tolist() == want.tolist()


def test_parts_that_no_rule_takes_are_refused() -> None:
    def rule(b: Builder, instruction: Instruction, operands: list[Any]) -> Replacement | None:
        return (b.constant(0, u32), b.constant(0, u32)) if instruction.opcode is Opcode.LOAD else None

    with pytest.raises(ProgramError, match="known in parts"):
        rewrite(structured(i64), rule)
