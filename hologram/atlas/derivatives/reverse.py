"""Reverse mode over a whole program: one more program, from cotangents of what it stores to those of what it reads.

Each lane computes its values once more, without storing, then follows its instructions backwards. What was stored into
takes its cotangent from there; what was read adds to its own, by atomics, since others may have read it too. A branch
is a branch again. A loop runs from its last turn to its first; what it carried into a turn is kept in a local array
where the turns are known and few, and is computed from the start of the loop otherwise. Within a lane stores are
undone in order: a store takes the cotangent of its element away, so what was there before has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from hologram.atlas.builder import Builder, Value
from hologram.atlas.derivatives.adjoint import _Flow, _passed
from hologram.atlas.derivatives.replayed import NoDerivative, Plan, examined
from hologram.atlas.functions import select
from hologram.atlas.opcodes import LOOPS, STRUCTURED, Opcode
from hologram.atlas.program import Access, Block, BufferParameter, Instruction, Program
from hologram.atlas.ssa import deep, enters, has_effect, makes, sources
from hologram.atlas.verify import verify
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ProgramError
from hologram.foundation.frozen import frozen

KEPT_BYTES = 1 << 14  # of a lane, for what loops carried
_KEPT = frozenset({dtypes.f32, dtypes.f64, dtypes.i32, dtypes.u32})
_ADDED = {dtypes.f32: dtypes.f32, dtypes.f16: dtypes.f32, dtypes.bf16: dtypes.f32, dtypes.f64: dtypes.i64}
Flows = dict[int, _Flow]
O = Opcode


@frozen
class Adjoint:
    """A program backwards. `roles` says what each of its buffers is: a role, and the parameter it belongs to.

    A `value` is as before the program ran. A `cotangent` comes in, and goes out as that of what was there before. A
    `gradient` begins as zeros; that of f64 is i64, the bits of its sums. Scalars are the program's, and `lengths`
    after them: of the buffers with those names.
    """

    program: Program
    roles: tuple[tuple[str, str], ...]
    scalars: tuple[str, ...]
    lengths: tuple[str, ...]


@lru_cache(256)
def adjoint_of(
    program: Program, wanted: frozenset[str], same: tuple[tuple[str, str], ...] = (), lanes: int = 0
) -> Adjoint:
    """The adjoint for some of its buffers and scalars.

    Args:
        program: of lanes that are computed apart, without rows.
        wanted: the buffers and scalars that have a gradient.
        same: those buffers that are another one by another name, with that name.
        lanes: 1 where it runs on a grid of one lane, which may store wherever it likes.

    Raises:
        NoDerivative: an instruction cannot be followed, which the error holds.
    """
    try:
        return _Reverse(program, examined(program, wanted, dict(same), alone=lanes == 1)).made()
    except NoDerivative as error:
        raise NoDerivative(error.why, error.instruction, program.name) from None


class _Reverse:
    """The adjoint under construction."""

    def __init__(self, program: Program, plan: Plan) -> None:
        self.program = program
        self.plan = plan
        self.types = program.types
        self.b = Builder(f"{program.name}_adjoint", rank=program.rank, workgroup=program.workgroup)
        self.taken = {p.name for p in (*program.buffers, *program.scalars)}
        self.parameters: dict[tuple[str, str], BufferParameter] = {}
        self.lengths: dict[str, tuple[str, Value]] = {}
        self.kept_bytes = 0
        for scalar in program.scalars:
            self.b.declare(scalar)

    def made(self) -> Adjoint:
        b, env = self.b, dict[int, Value]()
        for name in self.plan.used:
            self._length(name)
        self.forward(self.program.body.instructions, env)
        self.reverse(self.program.body.instructions, env, {})
        program = b.build()
        kept = Block(sources(program.body.instructions, (), keep=has_effect))
        program = replace(program, body=kept)
        mentioned = {i.attribute for i in kept.walk()}
        stored = {i.attribute for i in kept.walk() if i.opcode not in (O.LOAD, O.SCALAR)}
        roles = {p.name: role for role, p in self.parameters.items()}
        buffers = tuple(
            replace(p, access=Access.READ_WRITE if p.name in stored else Access.READ)
            for p in program.buffers
            if p.name in mentioned
        )
        of_lengths = {name: of for of, (name, _) in self.lengths.items()}
        scalars = tuple(s for s in program.scalars if s.name in mentioned)
        local = tuple(a for a in program.local if a.name in mentioned)
        program = replace(program, buffers=buffers, scalars=scalars, local=local)
        verify(program)
        return Adjoint(
            program,
            tuple(roles[p.name] for p in buffers),
            tuple(s.name for s in scalars if s.name not in of_lengths),
            tuple(of_lengths[s.name] for s in scalars if s.name in of_lengths),
        )

    # Parameters.

    def _free(self, name: str) -> str:
        while name in self.taken:
            name += "x"
        self.taken.add(name)
        return name

    def _parameter(self, role: str, of: str, dtype: DType) -> BufferParameter:
        known = self.parameters.get((role, of))
        if known is None:
            name = of if role == "value" else self._free(f"{role}_{of}".rstrip("_"))
            known = self.parameters[role, of] = self.b.buffer(name, dtype, Access.READ_WRITE)
        return known

    def _length(self, of: str) -> Value:
        if of not in self.lengths:
            name = self._free(f"length_{of}".rstrip("_"))
            self.lengths[of] = name, self.b.scalar(name, dtypes.index)
        return self.lengths[of][1]

    def _zero(self, dtype: DType) -> Value:
        return self.b.constant(dtype.python(0), dtype)

    # Values once more.

    def forward(self, instructions: Sequence[Instruction], env: dict[int, Value]) -> None:
        """Emits what has a value; nothing is stored."""
        for i in instructions:
            if i.opcode is O.IF and i.results:
                blocks = [lambda block=block: self._yields(block, env) for block in i.blocks]
                env.update(zip(i.results, self.b.if_(env[i.operands[0]], *blocks), strict=True))
            elif i.opcode in LOOPS and i.results:
                turns = _Turns(self, i, env)
                env.update(zip(i.results, turns.run(), strict=True))
            elif i.opcode is O.LOAD and i.result in self.plan.forwarded:
                env[i.result] = env[self.plan.forwarded[i.result]]
            elif i.opcode is O.LOAD:
                buffer = self._parameter("value", self.plan.slot(i.attribute), i.type)
                env[i.result] = self.b.load(buffer, env[i.operands[0]])
            elif len(i.results) == 1 and not has_effect(i):
                operands = (env[v] for v in i.operands)
                env[i.result] = self.b.emit(i.opcode, i.type, *operands, attribute=i.attribute)

    def _yields(self, block: Block, env: Mapping[int, Value]) -> list[Value]:
        local = dict(env)
        self.forward(block.instructions, local)
        return [local[y] for y in block.yields]

    # Backwards.

    def arrive(self, flows: Flows, value: int, flow: _Flow | None) -> None:
        if flow is not None and value in self.plan.active:
            flows[value] = flows[value] + flow if value in flows else flow

    def reverse(self, instructions: Sequence[Instruction], env: dict[int, Value], flows: Flows) -> None:
        """Follows a block whose values are known, from what has arrived at them."""
        for i in reversed(instructions):
            if i.opcode in STRUCTURED:
                arrived = {r: _across(flows.pop(r)) for r in i.results if r in flows}
                if arrived or any(id(x) in self.plan.stores for x in deep((i,))):
                    (self._loop if i.opcode in LOOPS else self._if)(i, env, flows, arrived)
            elif id(i) in self.plan.stores:
                self._store(i, env, flows)
            elif i.results and i.result in flows:
                self._pass(i, env, flows)

    def _store(self, i: Instruction, env: dict[int, Value], flows: Flows) -> None:
        position, dtype, of = env[i.operands[0]], self.types[i.operands[1]], self.plan.slot(i.attribute)
        buffer = self._parameter("cotangent", of, dtype)
        inside = (position >= 0) & (position < self._length(of))
        cotangent = self.b.load(buffer, position)
        if i.opcode is O.STORE:
            self.b.store(buffer, position, self._zero(dtype))
        if of in self.plan.several:
            inside &= cotangent != 0
        self.arrive(flows, i.operands[1], _Flow(cotangent, inside))

    def _pass(self, i: Instruction, env: dict[int, Value], flows: Flows) -> None:
        flow = flows.pop(i.result)
        if i.opcode is O.LOAD and i.result in self.plan.forwarded:
            self.arrive(flows, self.plan.forwarded[i.result], flow)
        elif i.opcode is O.LOAD:
            self._add(i, self.plan.slot(i.attribute), env[i.operands[0]], flow.total())
        elif i.opcode is O.SCALAR:
            self._add(i, i.attribute, self.b.constant(0, dtypes.index), flow.total())
        else:
            operands = [env[v] for v in i.operands]
            try:
                passed = _passed(i.opcode, flow, env[i.result], operands)
            except ProgramError:
                raise NoDerivative(f"{i.opcode.value} has no derivative", i) from None
            for value, one in zip(i.operands, passed, strict=True):
                self.arrive(flows, value, one)

    def _add(self, i: Instruction, of: str, position: Value, cotangent: Value) -> None:
        """Adds to the cotangent of an element that was read."""
        b = self.b
        if of in self.plan.written:  # this lane's own: see `examined`
            own = self._parameter("cotangent", of, i.type)
            return b.store(own, position, b.load(own, position) + cotangent)
        if i.type not in _ADDED:
            raise NoDerivative(f"gradients of {i.type} cannot be added up where points read one element", i)
        held = self._parameter("gradient", of, _ADDED[i.type])
        if held.dtype is not dtypes.i64:
            b.atomic(O.ATOMIC_ADD, held, position, cotangent.to(held.dtype))
            return None
        length = b.constant(1, dtypes.index) if i.opcode is O.SCALAR else self._length(of)

        def exchange(expected: Value) -> tuple[Value, Value]:
            total = (expected.bitcast(i.type) + cotangent).bitcast(held.dtype)
            found = b.atomic(O.ATOMIC_COMPARE_EXCHANGE, held, position, expected, total)
            return found != expected, found

        inside = (position >= 0) & (position < length)
        b.while_(inside, exchange, first=(self._zero(held.dtype),))
        return None

    def _outer(self, i: Instruction) -> list[int]:
        """Active values from around an instruction's blocks that cotangents leave them for."""
        made = makes((i,))
        inner = [x for x in deep((i,)) if x.opcode is O.LOAD and x.result in self.plan.forwarded]
        others = (self.plan.forwarded[x.result] for x in inner)
        yields = (y for block in i.blocks for y in block.yields)
        found = dict.fromkeys((*enters((i,)), *others, *yields))
        return [v for v in found if v in self.plan.active and v not in made]

    def _leave(self, flows: Flows, values: Sequence[int], cotangents: Sequence[Value]) -> None:
        """Cotangents go on from the blocks of an instruction; what is read needs no condition, as its law is a sum."""
        for value, cotangent in zip(values, cotangents, strict=True):
            nothing = None if value in self.plan.read else cotangent != 0
            self.arrive(flows, value, _Flow(cotangent, nothing))

    def _totals(self, flows: Flows, values: Sequence[int]) -> list[Value]:
        return [flows[v].total() if v in flows else self._zero(self.types[v]) for v in values]

    def _if(self, i: Instruction, env: dict[int, Value], flows: Flows, arrived: Mapping[int, _Flow]) -> None:
        outer = self._outer(i)

        def side(block: Block) -> Callable[[], list[Value]]:
            def run() -> list[Value]:
                local, inner = dict(env), Flows()
                self.forward(block.instructions, local)
                for result, y in zip(i.results, block.yields, strict=True):
                    if result in arrived:
                        self.arrive(inner, y, arrived[result])
                self.reverse(block.instructions, local, inner)
                return self._totals(inner, outer)

            return run

        results = self.b.if_(env[i.operands[0]], *map(side, i.blocks))
        self._leave(flows, outer, results)

    def _loop(
        self, i: Instruction, env: dict[int, Value], flows: Flows, arrived: Mapping[int, _Flow]
    ) -> None:
        b, turns, outer = self.b, _Turns(self, i, env), self._outer(i)
        count = turns.count()
        moving = [j for j, a in enumerate(turns.arguments) if a in self.plan.active]
        begin = [
            arrived[r].cotangent if r in arrived else self._zero(self.types[r])
            for r in (i.results[j] for j in moving)
        ]
        begin += [self._zero(self.types[v]) for v in outer]
        arrays = self._arrays(turns)
        region = b.region((dtypes.index, *(v.dtype for v in begin)))
        with b.inside(region):
            turn, *given = region.arguments
            k = count - 1 - turn
            state = [b.local_load(a, k) for a in arrays] if arrays else turns.state(k)
            local, inner = turns.entered(k, state), Flows()
            self.forward(turns.body.instructions, local)
            for j, cotangent in zip(moving, given[: len(moving)], strict=True):
                before = arrived.get(i.results[j])
                nothing = before is not None and before.condition is not None
                self.arrive(inner, turns.yields[j], _Flow(cotangent, cotangent != 0 if nothing else None))
            self.reverse(turns.body.instructions, local, inner)
            back = self._totals(inner, [turns.arguments[j] for j in moving])
            sums = self._totals(inner, outer)
            yields = back + [x + y for x, y in zip(given[len(moving) :], sums, strict=True)]
        region.instructions[:] = sources(region.instructions, [y.id for y in yields], keep=has_effect)
        read = {x.attribute for x in deep(region.instructions) if x.opcode is O.LOCAL_LOAD}
        if any(a.name in read for a in arrays):
            turns.run(lambda k, state: [b.local_store(a, k, x) for a, x in zip(arrays, state, strict=True)])
        bounds = b.constant(0, dtypes.index), count, b.constant(1, dtypes.index)
        results = b.counted(bounds, begin, region, yields)
        self._leave(flows, [turns.first[j] for j in moving] + outer, results)

    def _arrays(self, turns: _Turns) -> list:
        """Local arrays for what is carried into each turn; none where that is computed anew."""
        types = [self.types[a] for a in turns.arguments]
        size = turns.most * sum(t.itemsize for t in types if t in _KEPT)
        if not types or not size or not _KEPT.issuperset(types) or self.kept_bytes + size > KEPT_BYTES:
            return []
        self.kept_bytes += size
        return [self.b.local(self._free("carried"), t, turns.most) for t in types]


def _across(flow: _Flow) -> _Flow:
    """A cotangent at the border of a block, where a condition becomes another one: 0 is what has not arrived."""
    total = flow.total()
    return _Flow(total, None if flow.condition is None else total != 0)


class _Turns:
    """A loop of the program, as the adjoint runs it; `most` is how many turns it has, 0 where that is not known."""

    def __init__(self, reverse: _Reverse, loop: Instruction, env: Mapping[int, Value]) -> None:
        self.reverse, self.b, self.env, self.loop = reverse, reverse.b, env, loop
        self.body = loop.blocks[0]
        self.counted = loop.opcode is O.LOOP
        self.first = loop.operands[3:] if self.counted else loop.operands[1:]
        self.arguments = self.body.arguments[1:] if self.counted else self.body.arguments
        self.yields = self.body.yields if self.counted else self.body.yields[1:]
        self.bounds = [env[v] for v in loop.operands[:3]] if self.counted else []
        known = reverse.plan.numbers
        limits = [known.get(v) for v in loop.operands[:3]] if self.counted else [None]
        self.most = 0 if None in limits else len(range(*limits))  # type: ignore[arg-type]

    def entered(self, k: Value, state: Sequence[Value]) -> dict[int, Value]:
        """What is known at the beginning of turn `k`."""
        local = {**self.env, **dict(zip(self.arguments, state, strict=True))}
        if self.counted:
            start, _, step = self.bounds
            local[self.body.arguments[0]] = start + k.to(start.dtype) * step
        return local

    def count(self) -> Value:
        """How many turns it has."""
        b = self.b
        if self.counted:
            start, stop, step = self.bounds
            # As unsigned: the distance may not fit, and an index may have no sign.
            unsigned = start.dtype.unsigned if start.dtype.is_integer else start.dtype
            turns = (stop - start - 1).to(unsigned) // step.to(unsigned)
            return select(start < stop, turns.to(dtypes.index) + 1, 0)

        def turn(k: Value, *state: Value) -> list[Value]:
            on, *after = self._next(dict(zip(self.arguments, state, strict=True)))
            return [on, k + 1, *after]

        first = (b.constant(0, dtypes.index), *self._first())
        return b.while_(self.env[self.loop.operands[0]], turn, first=first)[0]

    def state(self, k: Value) -> Sequence[Value]:
        """What is carried into turn `k`, from the start of the loop."""

        def turn(t: Value, *state: Value) -> list[Value]:
            return self._next(self.entered(t, state))[0 if self.counted else 1 :]

        return self.b.loop(0, k, turn, first=self._first()) if self.first else ()

    def run(
        self, each: Callable[[Value, Sequence[Value]], object] = lambda k, state: None
    ) -> Sequence[Value]:
        """The loop once more; `each` has its turns, of a loop with known ones, and what is carried into them."""
        if not self.counted:
            first = self._first()
            turn = lambda *state: self._next(dict(zip(self.arguments, state, strict=True)))  # noqa: E731
            return self.b.while_(self.env[self.loop.operands[0]], turn, first=first)

        def counted(k: Value, *state: Value) -> list[Value]:
            each(k, state)
            return self._next(self.entered(k, state))

        return self.b.loop(0, self.count(), counted, first=self._first())

    def _first(self) -> list[Value]:
        return [self.env[v] for v in self.first]

    def _next(self, local: Mapping[int, Value]) -> list[Value]:
        return self.reverse._yields(self.body, {**self.env, **local})
