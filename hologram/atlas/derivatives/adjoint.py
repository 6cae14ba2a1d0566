"""Reverse mode over a program being written: how its results change with a value that they depend on.

Each instruction has a law, which takes the cotangent of its result to those of its operands (Griewank and Walther,
Evaluating Derivatives, 2008, chapter 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hologram.atlas import complex_parts
from hologram.atlas import functions as atlas
from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.opcodes import REDUCTIONS, ROUNDINGS, Opcode
from hologram.atlas.program import Instruction
from hologram.atlas.ssa import dependent
from hologram.foundation.errors import ProgramError

# c, the cotangent of the result z, and the operands; gives the cotangents of these, None where z does not change.
Law = Callable[..., tuple[Value | None, ...]]


def _power(c: Value, z: Value, x: Value, y: Value) -> tuple[Value, ...]:
    """(x^y)' = y x^(y - 1) x' + x^y log(x) y'; 0 where a power is constant: exponent 0, base 0.

    An exponent of 0 needs no choice but where it is multiplied by what is not finite: its own derivative counts.
    """
    by_base = select((y == 0.0) & ((x == 0.0) | (x != x)), 0.0, c * y * atlas.power(x, y - 1.0))
    return by_base, select(x == 0.0, 0.0, c * z * atlas.log(x))


# Of complex numbers a cotangent is L_x + i L_y, of a real L that depends on x + iy, as PyTorch has it. So a function
# with a derivative passes on its conjugate times c; laws that are linear in c and have no derivative in them are alike.
ALIKE = frozenset({Opcode.ADD, Opcode.SUB, Opcode.NEG, Opcode.CONVERT, Opcode.PAIR, Opcode.REDUCE_ADD})

LAWS: Mapping[Opcode, Law] = {
    Opcode.ADD: lambda c, z, x, y: (c, c),
    Opcode.SUB: lambda c, z, x, y: (c, -c),
    Opcode.MUL: lambda c, z, x, y: (c * y, c * x),
    Opcode.DIV: lambda c, z, x, y: (c / y, -c * z / y),
    Opcode.REM: lambda c, z, x, y: (c, -c * atlas.trunc(x / y)),  # x rem y = x - y trunc(x / y)
    Opcode.MAD: lambda c, z, x, y, w: (c * y, c * x, c),
    Opcode.FMA: lambda c, z, x, y, w: (c * y, c * x, c),
    # At 0 from the right: smooth functions, which compute by magnitudes, have all their derivatives so.
    Opcode.ABS: lambda c, z, x: (select(x < 0.0, -c, c),),
    Opcode.NEG: lambda c, z, x: (-c,),
    Opcode.POW: _power,
    Opcode.CONVERT: lambda c, z, x: (c.to(x.dtype),),
    Opcode.REAL: lambda c, z, x: (complex_parts.pair(c, 0.0),),
    Opcode.IMAG: lambda c, z, x: (complex_parts.pair(x.builder.constant(0.0, c.dtype), c),),
    Opcode.PAIR: lambda c, z, x, y: (complex_parts.real(c), complex_parts.imag(c)),
    Opcode.SQRT: lambda c, z, x: (c * 0.5 / z,),
    Opcode.RSQRT: lambda c, z, x: (c * -0.5 * z / x,),
    Opcode.EXP: lambda c, z, x: (c * z,),
    Opcode.EXP2: lambda c, z, x: (c * z * math.log(2.0),),
    Opcode.EXPM1: lambda c, z, x: (c * atlas.exp(x),),
    Opcode.LOG: lambda c, z, x: (c / x,),
    Opcode.LOG2: lambda c, z, x: (c * (1.0 / math.log(2.0)) / x,),
    Opcode.LOG1P: lambda c, z, x: (c / (1.0 + x),),
    Opcode.SIN: lambda c, z, x: (c * atlas.cos(x),),
    Opcode.COS: lambda c, z, x: (-c * atlas.sin(x),),
    Opcode.TAN: lambda c, z, x: (c * (1.0 + z * z),),
    Opcode.TANH: lambda c, z, x: (c * ((1.0 - z) * (1.0 + z)),),
    Opcode.ATAN: lambda c, z, x: (c / (1.0 + x * x),),
    Opcode.ERF: lambda c, z, x: (c * (2.0 / math.sqrt(math.pi)) * atlas.exp(-x * x),),
    **dict.fromkeys(ROUNDINGS, lambda c, z, x: (None,)),  # steps
    # Of rows: z is one for all elements x.
    Opcode.REDUCE_ADD: lambda c, z, x: (c,),
    Opcode.REDUCE_MIN: lambda c, z, x: (_shared(c, z, x),),
    Opcode.REDUCE_MAX: lambda c, z, x: (_shared(c, z, x),),
    Opcode.REDUCE_MUL: lambda c, z, x: (c * _others(z, x),),
}


def _shared(c: Value, z: Value, x: Value) -> Value:
    """Elements that are the extreme share its cotangent; so do NaNs, of which the extreme is one."""
    one, hit = x.builder.constant(1.0, x.dtype), (x == z) | (x != x)
    return select(hit, c / atlas.reduce_add(select(hit, one, 0.0)), 0.0)


def _others(z: Value, x: Value) -> Value:
    """The product of all other elements, without a division by 0."""
    one = x.builder.constant(1.0, x.dtype)
    zeros = atlas.reduce_add(select(x == 0.0, one, 0.0))
    rest = atlas.reduce_mul(select(x == 0.0, 1.0, x))
    return select(x == 0.0, select(zeros == 1.0, rest, 0.0), select(zeros == 0.0, z / x, 0.0))


@dataclass
class _Flow:
    """What has arrived at a value: its cotangent, and where it holds (None: everywhere).

    A choice discards what it did not choose, so conditions stay beside cotangents and are applied last: the derivative
    of a branch that was not taken may be infinite, and 0 times infinity is NaN.
    """

    cotangent: Value
    condition: Value | None

    def __add__(self, other: _Flow) -> _Flow:
        anywhere = None
        if self.condition is not None and other.condition is not None:
            anywhere = self.condition | other.condition
        return _Flow(self.total() + other.total(), anywhere)

    def total(self) -> Value:
        return self.cotangent if self.condition is None else select(self.condition, self.cotangent, 0.0)


def adjoint(
    result: Value,
    cotangent: Value,
    wanted: Value,
    *,
    known: Value | None = None,
    elements: Sequence[Value] = (),
    along: bool = True,
) -> Value | None:
    """The cotangent of `wanted`, an operand, from that of `result`; None where the result does not change with it.

    It is written into the program that both belong to, at its end. `known` is read in the place of the result, which is
    then not computed once more. In a program of rows all operands, `elements`, differ along the row, and so does the
    result if `along`; else a row has one result.

    Raises:
        ProgramError: an instruction between them has no law.
    """
    builder = result.builder
    instructions = [i for i in builder.written if len(i.results) == 1]
    types = {i.result: i.type for i in instructions}
    active, varying = _dependent(builder, instructions, wanted, elements)
    flows: dict[int, _Flow] = {}  # by value
    spread: dict[int, _Flow] = {}  # by value that a row shares: what comes from the row's elements

    def arrive(number: int, flow: _Flow, from_element: bool) -> None:
        to = spread if from_element and number not in varying else flows
        to[number] = to[number] + flow if number in to else flow

    def arrived(number: int) -> _Flow | None:
        flow, elements = flows.pop(number, None), spread.pop(number, None)
        if elements is not None:
            elements = _Flow(atlas.reduce_add(elements.total()), None)
        return elements if flow is None else flow if elements is None else flow + elements

    arrive(result.id, _Flow(cotangent, None), along)
    for instruction in reversed(instructions):
        number = instruction.result
        flow = arrived(number) if number in active and number != wanted.id else None
        if flow is None:
            continue
        z = known if known is not None and number == result.id else Value(builder, number, instruction.type)
        operands = [Value(builder, n, types[n]) for n in instruction.operands]
        for operand, passed in zip(operands, _passed(instruction.opcode, flow, z, operands), strict=True):
            if passed is not None and operand.id in active:
                arrive(operand.id, passed, number in varying)
    flow = arrived(wanted.id)
    return None if flow is None else flow.total()


def _dependent(
    builder: Builder, instructions: Sequence[Instruction], wanted: Value, elements: Sequence[Value]
) -> tuple[set[int], set[int]]:
    """Floats and complex numbers that depend on a value, and all that is not the same for a whole row."""
    active = dependent(instructions, (wanted.id,), carries=lambda i: i.type.is_inexact)
    first = builder.rank - builder.reduced

    def begins(i: Instruction) -> bool:
        return i.opcode is Opcode.COORDINATE and int(i.attribute or 0) >= first

    varying = (x.id for x in elements)
    return active, dependent(
        instructions, varying, begins=begins, carries=lambda i: i.opcode not in REDUCTIONS
    )


def _extreme(opcode: Opcode, flow: _Flow, x: Value, y: Value) -> Sequence[_Flow]:
    """A choice as well: the one that is taken gets all, equals half each; beside NaN both get all, as in PyTorch."""
    less, more = (x < y, y < x) if opcode is Opcode.MAX else (y < x, x < y)
    half = select(x == y, flow.cotangent * 0.5, flow.cotangent)
    taken = (~less, ~more)
    return [_Flow(half, side if flow.condition is None else side & flow.condition) for side in taken]


def _passed(opcode: Opcode, flow: _Flow, z: Value, operands: Sequence[Value]) -> Sequence[_Flow | None]:
    """What an instruction passes on to each of its operands."""
    if opcode is Opcode.SELECT:
        chosen = operands[0]
        sides = (chosen, ~chosen)
        if flow.condition is not None:
            sides = (chosen & flow.condition, ~chosen & flow.condition)
        return None, *(_Flow(flow.cotangent, side) for side in sides)
    if opcode in (Opcode.MIN, Opcode.MAX):
        return _extreme(opcode, flow, *operands)
    if opcode not in LAWS:
        raise ProgramError(f"{z.builder.name}: {opcode.value} has no derivative")
    if z.dtype.is_complex and opcode not in ALIKE:
        turned = LAWS[opcode](complex_parts.conjugate(flow.cotangent), z, *operands)
        cotangents = tuple(c if c is None else complex_parts.conjugate(c) for c in turned)
    else:
        cotangents = LAWS[opcode](flow.cotangent, z, *operands)
    return [None if c is None else _Flow(c, flow.condition) for c in cotangents]
