"""What must hold of a program whose lanes compute their values once more: what is stored is not read by others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from hologram.atlas.opcodes import ATOMICS, LOCAL_ACCESSES, MEETINGS, PURE, REDUCTIONS, STRUCTURED, Opcode
from hologram.atlas.program import Block, Instruction, Program
from hologram.atlas.ssa import definitions, mentions
from hologram.foundation.errors import GradientError
from hologram.foundation.frozen import frozen

O = Opcode
_WAYS: Mapping[Opcode, str] = {
    **dict.fromkeys(
        (O.SHARED_LOAD, O.SHARED_AGREED, O.SHARED_STORE, *MEETINGS),
        "points that share memory cannot be followed backwards",
    ),
    **dict.fromkeys(
        LOCAL_ACCESSES, "a local array cannot be followed backwards: keep its elements in variables"
    ),
    **dict.fromkeys(REDUCTIONS, "a program of rows cannot be followed backwards"),
}
_OWN = frozenset({O.COORDINATE, O.LANE, O.WORKGROUP, O.THREAD, O.LOAD})  # what may differ from lane to lane


class NoDerivative(GradientError):
    """An instruction of a program, `instruction`, that cannot be followed backwards."""

    def __init__(self, why: str, instruction: object, who: str = "") -> None:
        super().__init__(f"{who}: {why}" if who else why)
        self.why = why
        self.instruction = instruction
        self.who = who

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by what it is made of, which is not its message alone."""
        return type(self), (self.why, self.instruction, self.who), vars(self)


@frozen(eq=False)
class Plan:
    """What reverse mode asks about a program."""

    active: frozenset[int]  # floats that depend on what is wanted
    stores: frozenset[int]  # ids of instructions that store floats, or add to them
    written: frozenset[str]  # buffers stored into
    used: tuple[str, ...]
    forwarded: Mapping[int, int]  # of a load behind a store to the same element, the value stored
    read: frozenset[int]  # values that are read, of buffers and scalars
    numbers: Mapping[int, Any]  # values that are constants
    same: Mapping[str, str]

    several: frozenset[str]  # buffers that more than one instruction stores into

    def slot(self, name: str) -> str:
        return self.same.get(name, name)


def examined(program: Program, wanted: frozenset[str], same: Mapping[str, str], *, alone: bool) -> Plan:
    """What is known of a program; raises NoDerivative where it cannot be followed backwards."""
    walk = [*program.body.walk()]
    made = definitions(walk)
    mentioned = {v for i in walk for v in mentions(i)}
    types = program.types

    def slot(i: Instruction) -> str:
        return same.get(i.attribute, i.attribute)

    for i in walk:
        if i.opcode in _WAYS:
            raise NoDerivative(_WAYS[i.opcode], i)
        if i.opcode in ATOMICS and not mentioned.isdisjoint(i.results):
            raise NoDerivative(
                "what an atomic finds depends on the order of points, so it has no derivative", i
            )
        if i.opcode in ATOMICS and i.opcode is not O.ATOMIC_ADD and i.type.is_inexact:
            raise NoDerivative(f"{i.opcode.value} has no derivative; of atomics only adding has one", i)
    stores = [i for i in walk if i.opcode is O.STORE]
    written = frozenset(map(slot, stores))
    added = frozenset(slot(i) for i in walk if i.opcode in ATOMICS)
    for i in walk:
        if i.opcode in (O.STORE, O.LOAD) and slot(i) in added:
            verb = "stored into" if i.opcode is O.STORE else "read"
            raise NoDerivative(f"{i.attribute} is {verb} here and changed by atomics, in any order", i)
    key = _keys(made, lambda name: same.get(name, name) in written)
    for i in walk:
        if i.opcode is O.LOAD and any(
            slot(s) == slot(i) and key(s.operands[0]) != key(i.operands[0]) for s in stores
        ):
            raise NoDerivative(
                f"{i.attribute} is read here, and the kernel stores into it elsewhere: read one array and store into "
                "another",
                i,
            )
    forwarded: dict[int, int] = {}
    _follow(program.body, {}, slot, forwarded)
    if not alone:
        _races(program.body, reached(program.body, lambda i: i.opcode in _OWN, lambda v: True, control=True))
    active = reached(
        program.body,
        lambda i: i.opcode in (O.LOAD, O.SCALAR) and slot(i) in wanted and i.type.is_inexact,
        lambda v: types[v].is_inexact,
        also=forwarded,
    )
    flowing = [i for i in walk if i.opcode in (O.STORE, O.ATOMIC_ADD) and types[i.operands[1]].is_inexact]
    numbers = {i.result: i.attribute for i in walk if i.opcode is O.CONSTANT}
    used = tuple(dict.fromkeys(same.get(b.name, b.name) for b in program.buffers if b.dtype.is_inexact))
    read = frozenset(i.result for i in walk if i.opcode in (O.LOAD, O.SCALAR) and i.result not in forwarded)
    several = frozenset(n for n, k in Counter(map(slot, stores)).items() if k > 1)
    return Plan(active, frozenset(map(id, flowing)), written, used, forwarded, read, numbers, same, several)


def _keys(made: Mapping[int, Instruction], stored: Callable[[str], bool]) -> Callable[[int], Any]:
    """What tells positions apart: how they are computed, wherever that is written."""
    known: dict[int, Any] = {}

    def key(value: int) -> Any:
        if value not in known:
            i = made.get(value)
            again = i is not None and (i.opcode in PURE or (i.opcode is O.LOAD and not stored(i.attribute)))
            known[value] = (
                (i.opcode, i.types, i.exact, *map(key, i.operands)) if again and i is not None else value
            )
        return known[value]

    return key


def _follow(
    block: Block, held: dict[str, int | None], slot: Callable[[Instruction], str], forwarded: dict[int, int]
) -> None:
    """Finds loads of what the lane itself has stored; `held` has the last value, None where it is one of several."""
    for i in block.instructions:
        if i.opcode is O.LOAD and slot(i) in held:
            value = held[slot(i)]
            if value is None:
                raise NoDerivative(
                    f"{i.attribute} is read here behind a store in a loop or a branch: keep it in a variable, and "
                    "store at the end",
                    i,
                )
            forwarded[i.result] = value
        elif i.opcode is O.STORE:
            held[slot(i)] = i.operands[1]
        elif i.opcode in STRUCTURED:
            inner = {slot(x): None for b in i.blocks for x in b.walk() if x.opcode is O.STORE}
            for b in i.blocks:
                _follow(b, {**held} if i.opcode is O.IF else {**held, **inner}, slot, forwarded)
            held.update(inner)


def _races(block: Block, varying: frozenset[int]) -> None:
    """Raises NoDerivative for a store that all lanes make to one element."""
    for i in block.instructions:
        if i.opcode is O.STORE and i.operands[0] not in varying:
            raise NoDerivative(
                f"every point stores into the same element of {i.attribute}, so which one wins is not known",
                i,
            )
        if i.opcode is not O.IF or i.operands[0] not in varying:
            for inner in i.blocks:
                _races(inner, varying)


def reached(
    body: Block,
    begins: Callable[[Instruction], bool],
    carries: Callable[[int], bool],
    *,
    control: bool = False,
    also: Mapping[int, int] = {},
) -> frozenset[int]:
    """Values that depend on what `begins`, through loops and branches; with `control` on what was chosen, too."""
    found: set[int] = set()

    def flow(source: bool, to: int) -> None:
        if source and carries(to):
            found.add(to)

    def visit(block: Block) -> None:
        for i in block.instructions:
            for inner in i.blocks:
                visit(inner)
            if i.opcode is O.IF:
                for inner in i.blocks:
                    for y, r in zip(inner.yields, i.results, strict=True):
                        flow(y in found or (control and i.operands[0] in found), r)
            elif i.opcode in STRUCTURED:
                _carried(i)
            elif i.results:
                depends = begins(i) or also.get(i.result) in found or not found.isdisjoint(i.operands)
                flow(depends, i.result)

    def _carried(i: Instruction) -> None:
        skip = 3 if i.opcode is O.LOOP else 1
        inner = i.blocks[0]
        arguments = inner.arguments[1:] if i.opcode is O.LOOP else inner.arguments
        yields = inner.yields if i.opcode is O.LOOP else inner.yields[1:]
        chosen = not found.isdisjoint((*i.operands[:skip], *inner.yields[: len(inner.yields) - len(yields)]))
        if i.opcode is O.LOOP:
            flow(chosen, inner.arguments[0])
        for a, y, f, r in zip(arguments, yields, i.operands[skip:], i.results, strict=True):
            flow(a in found or y in found or f in found or (control and chosen), r)
            flow(r in found, a)

    before = -1
    while before != len(found):
        before = len(found)
        visit(body)
    return frozenset(found)
