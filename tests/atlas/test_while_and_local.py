"""Loops with a condition, a lane's own memory, atomics in shared memory: backends do what the evaluator says."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.builder import Builder, Value
from hologram.atlas.evaluate import evaluate
from hologram.atlas.functions import select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.atlas.text import format_program, parse_program
from hologram.atlas.verify import verify
from hologram.compiler.pipeline import canonical
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, i32, index, u32

THREADS = 8


def collatz() -> Program:
    """How many steps to 1, and a number on the way, which waits in a local array."""
    b = Builder("collatz")
    x, out = b.buffer("x", i32, Access.READ), b.buffer("out", i32, Access.WRITE)
    lane, seen = b.coordinate(0), b.local("seen", i32, 4)
    first = b.load(x, lane)

    def body(n: Value, count: Value) -> list[Value]:
        b.local_store(seen, (count % 4).to(index), n)
        following = select((n & 1) == 0, n // 2, n * 3 + 1)
        return [following > 1, following, count + 1]

    _, count = b.while_(first > 1, body, first=[first, b.constant(0, i32)])
    b.store(out, lane, count + b.local_load(seen, b.constant(1, index)))
    return b.build()


def drained() -> Program:
    """Threads take turns at a shared counter until it is spent; all meet at a barrier in each round."""
    b = Builder("drained", workgroup=THREADS)
    x, out = b.buffer("x", i32, Access.READ), b.buffer("out", i32, Access.WRITE)
    lane, thread = b.coordinate(0), b.position(Opcode.THREAD)
    spent, own, zero = b.shared("spent", i32, 1), b.local("own", i32, 2), b.constant(0, index)

    def body(round_: Value, total: Value) -> list[Value]:
        b.local_store(own, zero, b.load(x, lane) + round_)
        b.atomic(Opcode.ATOMIC_ADD, spent, zero, b.local_load(own, zero))
        b.barrier()
        found = b.shared_load(spent, zero)
        b.barrier()
        return [round_ < 3, round_ + 1, total + found * select(thread == 0, 2, b.constant(1, i32))]

    go = b.constant(True, dtypes.bool_)
    first = b.constant(0, i32)
    _, total = b.while_(go, body, first=[first, first])
    b.store(out, lane, total + b.local_load(own, zero))
    return b.build()


def shared_atomics(opcode: Opcode, dtype: DType) -> Program:
    """A workgroup folds its numbers into two elements of shared memory."""
    b = Builder("folded", workgroup=THREADS)
    x, out = b.buffer("x", dtype, Access.READ), b.buffer("out", dtype, Access.WRITE)
    lane, thread, folded = b.coordinate(0), b.position(Opcode.THREAD), b.shared("parts", dtype, 2)
    place = thread % 2
    value = b.load(x, lane)
    if opcode is Opcode.ATOMIC_COMPARE_EXCHANGE:  # the first one to find a 0
        b.atomic(opcode, folded, place, b.constant(0, dtype), select(thread < 2, value, 0))
    elif opcode is Opcode.ATOMIC_EXCHANGE:
        b.if_(thread < 2, lambda: [b.atomic(opcode, folded, place, value)], lambda: [value])
    else:
        b.atomic(opcode, folded, place, value)
    b.barrier()
    b.store(out, lane, b.shared_load(folded, place))
    return b.build()


def global_exchange(dtype: DType) -> Program:
    """The lanes that find their number's place empty take it."""
    b = Builder("taken")
    x, out = b.buffer("x", dtype, Access.READ), b.buffer("out", dtype, Access.READ_WRITE)
    value = b.load(x, b.coordinate(0))
    place = (value & 7).to(index)
    b.atomic(Opcode.ATOMIC_COMPARE_EXCHANGE, out, place, b.constant(0, dtype), (value & 7) + 1)
    return b.build()


def check(program: Program, executor: hg.Executor, x: np.ndarray, size: int | None = None) -> None:
    verify(program)
    assert parse_program(format_program(program)) == program
    form = canonical(program)
    verify(form)
    want, again = (np.zeros(size or x.size, x.dtype) for _ in range(2))
    evaluate(program, {"x": x, "out": want}, {}, (x.size,))
    evaluate(form, {"x": x, "out": again}, {}, (x.size,))
    assert np.array_equal(want, again)
    out = executor.zeros(want.size, dtypes.dtype(x.dtype))
    executor.run(program, {"x": executor.tensor(x), "out": out}, lanes=x.size)
    assert np.array_equal(out.to_numpy(), want)
    assert want.any()


@pytest.mark.parametrize("count", [1, 7, 100])
def test_while(executor: hg.Executor, count: int) -> None:
    check(collatz(), executor, np.arange(2, count + 2, dtype=np.int32))


@pytest.mark.parametrize("count", [1, 8, 21])
def test_barrier_in_a_while(executor: hg.Executor, count: int) -> None:
    check(drained(), executor, np.arange(1, count + 1, dtype=np.int32))


ATOMICS = ["add", "min", "max", "and", "or", "xor", "exchange", "compare_exchange"]


@pytest.mark.parametrize("dtype", [i32, u32], ids=str)
@pytest.mark.parametrize("name", ATOMICS)
def test_shared_atomics(executor: hg.Executor, name: str, dtype: DType) -> None:
    x = np.random.default_rng(0).integers(1, 100, 29).astype(dtype.numpy)
    opcode = Opcode(f"atomic_{name}")
    if opcode in (Opcode.ATOMIC_MIN, Opcode.ATOMIC_AND):  # shared memory begins as zeros
        x = (x.astype(np.int64) - 90).astype(dtype.numpy)
        x[:2] = 7
    program = shared_atomics(opcode, dtype)
    verify(program)
    want, out = np.zeros_like(x), executor.zeros(x.size, dtype)
    evaluate(program, {"x": x, "out": want}, {}, (x.size,))
    executor.run(program, {"x": executor.tensor(x), "out": out}, lanes=x.size)
    assert np.array_equal(out.to_numpy(), want)


def test_shared_addition_of_floats(executor: hg.Executor) -> None:
    check(shared_atomics(Opcode.ATOMIC_ADD, dtypes.f32), executor, np.arange(19, dtype=np.float32))


@pytest.mark.parametrize("dtype", [i32, u32], ids=str)
def test_compare_exchange(executor: hg.Executor, dtype: DType) -> None:
    check(global_exchange(dtype), executor, np.arange(3, 90, dtype=dtype.numpy), 8)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (
            "%0 = constant 1 : i32\n%1 = while %0, %0 (%2 : i32) : i32\n  yield %0, %2\nend",
            "it must take a bool",
        ),
        ("%0 = constant true : bool\nwhile %0 (%2 : i32)\n  yield %0\nend", "its block must take"),
        (
            "%0 = constant true : bool\n%1 = while %0, %0 (%2 : bool) : bool\n  yield %2\nend",
            "its block must yield",
        ),
        ("%0 = constant 0 : index\n%1 = local_load nothing %0 : f32", "it must name a local array"),
        (
            "%0 = constant 0 : index\n%1 = constant 0 : f32\n%2 = atomic_add kept %0, %1 : f32",
            "buffer or shared array",
        ),
    ],
)
def test_rules(text: str, rule: str) -> None:
    with pytest.raises(hg.ProgramError, match=rule):
        verify(parse_program(f"program p rank 1 reduced 0\nlocal kept : f32 3\n{text}\n"))


def test_a_barrier_where_data_end_a_loop_is_refused() -> None:
    b = Builder("parted", workgroup=THREADS)
    x = b.buffer("x", i32, Access.READ)

    def body(n: Value) -> list[Value]:
        b.barrier()
        return [n > 0, n - 1]

    b.while_(b.constant(True, dtypes.bool_), body, first=[b.load(x, b.coordinate(0))])
    with pytest.raises(hg.ProgramError, match="barrier must not stand where lanes"):
        verify(b.build())
