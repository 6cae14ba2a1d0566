"""The rules of Atlas: `verify` refuses a program that breaks one, naming the line of its text form and the rule.

What each opcode takes and gives stands in rules.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from hologram.atlas.opcodes import (
    ATOMICS,
    MEETINGS,
    READS,
    REDUCTIONS,
    STRUCTURED,
    WRITES,
    Opcode,
)
from hologram.atlas.program import Access, Block, BufferParameter, Instruction, Program
from hologram.atlas.rules import (
    ATOMIC,
    BITS,
    FLOATS,
    INDEX,
    INTEGERS,
    NOT_INDEXABLE,
    RULES,
)
from hologram.atlas.text import AXIS, COUNTED, NAMED, line_numbers
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ProgramError

_NAME = re.compile(r"[A-Za-z](_?[A-Za-z0-9])*_?")

O = Opcode
# Opcodes whose value, or effect, depends on the workgroup.
_TOGETHER = MEETINGS | {O.SHARED_AGREED}  # where lanes must not have parted
_COOPERATING = frozenset({O.WORKGROUP, O.THREAD, O.SHARED_LOAD, O.SHARED_STORE}) | _TOGETHER
# Values that may differ between the lanes of a workgroup, whatever their operands.
_DIVERGING = ATOMICS | {O.COORDINATE, O.LANE, O.THREAD, O.LOAD, O.SHARED_LOAD, O.LOCAL_LOAD, O.SHUFFLE}
_NAMES = {
    O.SCALAR: "scalar",
    O.SHARED_LOAD: "shared array",
    O.SHARED_AGREED: "shared array",
    O.SHARED_STORE: "shared array",
    O.LOCAL_LOAD: "local array",
    O.LOCAL_STORE: "local array",
}
_FLOAT_ATOMICS = frozenset({O.ATOMIC_ADD, O.ATOMIC_EXCHANGE})
del O


def verify(program: Program) -> None:
    """Raises ProgramError for a program that breaks a rule; the message names the line of the text form."""
    _verify_declarations(program)
    _Verifier(program).verify_block(program.body, {}, top=True, uniform=True)


def _verify_declarations(program: Program) -> None:
    def refuse(line: int, rule: str) -> ProgramError:
        return ProgramError(f"{program.name}: line {line}: {rule}")

    if not 0 <= program.reduced <= program.rank or program.rank < 1:
        raise refuse(
            1, f"rank must be at least 1 and reduced at most rank, got {program.rank} and {program.reduced}"
        )
    if program.workgroup is not None and program.workgroup < 1:
        raise refuse(1, f"a workgroup must have at least 1 thread, got {program.workgroup}")
    if program.workgroup is not None and program.reduced:
        raise refuse(1, f"a program with reduced axes must leave its workgroup open, got {program.workgroup}")
    parameters = (*program.buffers, *program.scalars, *program.shared, *program.local)
    seen: set[str] = set()
    for line, name in enumerate((program.name, *(p.name for p in parameters)), 1):
        if not _NAME.fullmatch(name):
            raise refuse(
                line,
                "a name must start with a letter and go on in letters, digits and single underscores, "
                f"got {name!r}",
            )
        if name in seen:
            raise refuse(line, f"names must be unique, got {name} twice")
        seen.add(name)
    for line, p in enumerate(parameters, 2):
        if p.dtype is dtypes.index and p not in program.scalars:
            raise refuse(line, f"memory must hold one of the dtypes, got index for {p.name}")
    for line, s in enumerate(program.shared, 2 + len(program.buffers) + len(program.scalars)):
        if s.size < 1 or program.workgroup is None:
            raise refuse(
                line,
                "a shared array must have a size of at least 1 and a program with a workgroup, "
                f"got {s.name} of {s.size}, workgroup {program.workgroup}",
            )
    for line, s in enumerate(program.local, 2 + len(parameters) - len(program.local)):
        if s.size < 1 or program.reduced:
            raise refuse(
                line,
                "a local array must have a size of at least 1 and a program without reduced axes, "
                f"got {s.name} of {s.size}, reduced {program.reduced}",
            )


@dataclass
class _Verifier:
    program: Program
    defined: set[int] = field(default_factory=set)
    divergent: set[int] = field(default_factory=set)
    constants: dict[int, object] = field(default_factory=dict)

    def refuse(self, i: Instruction, rule: str) -> ProgramError:
        return ProgramError(
            f"{self.program.name}: line {line_numbers(self.program)[id(i)]}: {i.opcode.value}: {rule}"
        )

    def verify_block(self, block: Block, scope: dict[int, DType], *, top: bool, uniform: bool) -> None:
        """`scope` are the values in reach; the block's own are added to it, so pass a copy for an inner block."""
        for i in block.instructions:
            unknown = [o for o in i.operands if o not in scope]
            if unknown:
                raise self.refuse(
                    i, f"an operand must be defined earlier, in this block or around it, got %{unknown[0]}"
                )
            if i.opcode in REDUCTIONS and not (top and self.program.reduced):
                raise self.refuse(
                    i, "a reduction must stand outside of blocks, in a program with reduced axes"
                )
            if i.opcode in _COOPERATING and self.program.workgroup is None:
                raise self.refuse(i, "the program must name its workgroup")
            if i.opcode in _TOGETHER and not uniform:
                raise self.refuse(i, f"a {i.opcode.value} must not stand where lanes of a workgroup part")
            if i.opcode not in STRUCTURED and i.blocks:
                raise self.refuse(i, f"only if, loop and while have blocks, got {len(i.blocks)}")
            self.verify_attribute(i)
            self.define(i, i.results)
            if i.opcode in STRUCTURED:
                _STRUCTURES[i.opcode](self, i, scope, uniform)
            else:
                self.verify_types(i, [scope[o] for o in i.operands])
                _EXTRA.get(i.opcode, _nothing)(self, i, scope)
            if i.opcode in _DIVERGING or self.divergent.intersection(i.operands):
                self.divergent.update(i.results)
            scope.update(zip(i.results, i.types, strict=True))
        if top and (block.arguments or block.yields):
            raise ProgramError(
                f"{self.program.name}: line 1: the body must have no arguments and yield nothing"
            )

    def define(self, i: Instruction, values: Iterable[int]) -> None:
        if len(i.results) != len(i.types):
            raise self.refuse(i, f"each result must have a dtype, got {len(i.results)} and {len(i.types)}")
        for v in values:
            if v in self.defined:
                raise self.refuse(i, f"a value must be defined once, got %{v} again")
            self.defined.add(v)

    def verify_attribute(self, i: Instruction) -> None:
        a = i.attribute
        if i.opcode in AXIS:
            if not isinstance(a, int) or isinstance(a, bool) or not 0 <= a < self.program.rank:
                raise self.refuse(i, f"the axis must be below the rank of {self.program.rank}, got {a}")
        elif i.opcode in COUNTED:
            threads = self.program.workgroup or 0
            if not isinstance(a, int) or isinstance(a, bool) or a < 1 or threads % a or a & (a - 1):
                raise self.refuse(
                    i, f"the width must be a power of two that divides the workgroup of {threads}, got {a}"
                )
        elif i.opcode not in NAMED and i.opcode is not Opcode.CONSTANT and a is not None:
            raise self.refuse(i, f"there must be no attribute, got {a}")

    def declared(self, i: Instruction) -> DType | None:
        """The dtype of the memory or scalar that the instruction names."""
        if i.opcode not in NAMED:
            return None
        p = self.program
        kinds = {"scalar": p.scalars, "shared array": p.shared, "local array": p.local, "buffer": p.buffers}
        kind = _NAMES.get(i.opcode, "buffer")
        among = kinds[kind]
        if i.opcode in ATOMICS:
            kind, among = "buffer or shared array", (*p.buffers, *p.shared)
        parameter = next((x for x in among if x.name == i.attribute), None)
        if parameter is None:
            raise self.refuse(i, f"it must name a {kind} of the program, got {i.attribute}")
        if isinstance(parameter, BufferParameter):
            self.verify_access(i, parameter)
        if i.opcode in ATOMICS:
            self.verify_atomic(i, parameter.dtype)
        return parameter.dtype

    def verify_access(self, i: Instruction, buffer: BufferParameter) -> None:
        if i.opcode in WRITES and buffer.access is Access.READ:
            raise self.refuse(i, f"a buffer that is written must not have access read, got {buffer.name}")
        if i.opcode in READS and buffer.access is Access.WRITE:
            raise self.refuse(i, f"a buffer that is read must not have access write, got {buffer.name}")

    def verify_atomic(self, i: Instruction, dtype: DType) -> None:
        if dtype not in ATOMIC and (dtype is not dtypes.f32 or i.opcode not in _FLOAT_ATOMICS):
            raise self.refuse(
                i, f"an atomic must be on i32, u32, i64 or u64, or add or exchange f32, got {dtype}"
            )

    def verify_types(self, i: Instruction, operands: list[DType]) -> None:
        rule = RULES[i.opcode]
        for what, words, got in (("operands", rule.operands, operands), ("results", rule.results, i.types)):
            if len(words.split()) != len(got):
                raise self.refuse(
                    i, f"{what} must be {len(words.split())} ({words or 'none'}), got {len(got)}"
                )
        bound: dict[str, DType | None] = {"index": dtypes.index, "bool": dtypes.bool_, "M": self.declared(i)}
        for word, got in zip(f"{rule.operands} {rule.results}".split(), (*operands, *i.types), strict=True):
            want = bound.setdefault(word, got)
            if got is not want:
                raise self.refuse(i, f"{rule.operands} -> {rule.results}: {word} must be {want}, got {got}")
        t = bound.get("T")
        if t is not None and t not in rule.dtypes:
            names = " ".join(sorted(d.name for d in rule.dtypes))
            raise self.refuse(i, f"the dtype must be one of {names}, got {t}")

    def verify_yields(self, i: Instruction, block: Block, scope: dict[int, DType]) -> None:
        got = [scope.get(y) for y in block.yields]
        if got != list(i.types):
            raise self.refuse(i, f"each block must yield {list(i.types)}, defined within reach, got {got}")

    def verify_if(self, i: Instruction, scope: dict[int, DType], uniform: bool) -> None:
        if [scope[o] for o in i.operands] != [dtypes.bool_] or len(i.blocks) != 2:
            raise self.refuse(i, "it must take one bool and have two blocks")
        uniform = uniform and i.operands[0] not in self.divergent
        for block in i.blocks:
            if block.arguments:
                raise self.refuse(i, "its blocks must have no arguments")
            inner = dict(scope)
            self.verify_block(block, inner, top=False, uniform=uniform)
            self.verify_yields(i, block, inner)
            if self.divergent.intersection(block.yields):
                self.divergent.update(i.results)

    def verify_loop(self, i: Instruction, scope: dict[int, DType], uniform: bool) -> None:
        types = [scope[o] for o in i.operands]
        if len(i.blocks) != 1 or len(types) < 3:
            raise self.refuse(i, "it must take start, stop and step and have one block")
        counter = types[0]
        if types[:3] != [counter] * 3 or counter not in INTEGERS | INDEX:
            raise self.refuse(
                i, f"start, stop and step must be of one integer dtype or index, got {types[:3]}"
            )
        step = self.constants.get(i.operands[2])
        if isinstance(step, (int, float)) and step <= 0:
            raise self.refuse(i, f"the step must be positive, got {step}")
        (block,) = i.blocks
        if list(block.argument_types) != [counter, *types[3:]] or list(i.types) != types[3:]:
            raise self.refuse(
                i,
                f"its block must take, and it must give, the counter and what it carries, {[counter, *types[3:]]}",
            )
        self.define(i, block.arguments)
        bounds = uniform and not self.divergent.intersection(i.operands[:3])
        first = {a for a, o in zip(block.arguments[1:], i.operands[3:], strict=True) if o in self.divergent}
        self.divergent |= first if bounds else set(block.arguments)
        inner = dict(scope) | dict(zip(block.arguments, block.argument_types, strict=True))
        self.spread(block)
        self.verify_block(block, inner, top=False, uniform=bounds)
        self.verify_yields(i, block, inner)
        if self.divergent.intersection(block.yields):
            self.divergent.update(i.results)

    def verify_while(self, i: Instruction, scope: dict[int, DType], uniform: bool) -> None:
        types = [scope[o] for o in i.operands]
        if len(i.blocks) != 1 or types[:1] != [dtypes.bool_]:
            raise self.refuse(i, "it must take a bool and have one block")
        (block,) = i.blocks
        if list(block.argument_types) != types[1:] or list(i.types) != types[1:]:
            raise self.refuse(i, f"its block must take, and it must give, what it carries, {types[1:]}")
        self.define(i, block.arguments)
        firsts = zip(block.arguments, i.operands[1:], strict=True)
        self.divergent |= {a for a, o in firsts if o in self.divergent}
        self.spread(block, 0)
        together = uniform and self.divergent.isdisjoint((i.operands[0], *block.yields[:1]))
        if not together:
            self.divergent |= set(block.arguments)
            self.spread(block, 0)
        inner = dict(scope) | dict(zip(block.arguments, block.argument_types, strict=True))
        self.verify_block(block, inner, top=False, uniform=together)
        got = [inner.get(y) for y in block.yields]
        if got != [dtypes.bool_, *i.types]:
            raise self.refuse(
                i, f"its block must yield {[dtypes.bool_, *i.types]}, defined within reach, got {got}"
            )
        if not together or self.divergent.intersection(block.yields):
            self.divergent.update(i.results)

    def spread(self, block: Block, counters: int = 1) -> None:
        """Marks what a loop carries as divergent where a later round would find it so."""
        while True:
            before = len(self.divergent)
            for i in block.walk():
                yields = {y for b in i.blocks for y in b.yields}
                if (
                    i.opcode in _DIVERGING
                    or self.divergent.intersection(i.operands)
                    or self.divergent & yields
                ):
                    self.divergent.update(i.results)
                if i.opcode is Opcode.LOOP:
                    self.carry(i.blocks[0], i.operands[3:], 1)
                elif i.opcode is Opcode.WHILE:
                    self.carry(i.blocks[0], i.operands[1:], 0)
            self.carry(block, block.yields[1 - counters :], counters)
            if len(self.divergent) == before:
                return

    def carry(self, block: Block, following: tuple[int, ...], counters: int) -> None:
        """Marks what a loop carries, behind its counters, where its first values or those it yields are divergent."""
        for values in (following, block.yields[1 - counters :]):
            pairs = zip(block.arguments[counters:], values, strict=False)
            self.divergent |= {a for a, v in pairs if v in self.divergent}


# Rules of single opcodes beyond their types.


def _nothing(verifier: _Verifier, i: Instruction, scope: dict[int, DType]) -> None:
    pass


def _agreed(verifier: _Verifier, i: Instruction, scope: dict[int, DType]) -> None:
    if i.type is not dtypes.i32:
        raise verifier.refuse(i, f"the array must be of i32, got {i.type}")
    if i.operands[0] in verifier.divergent:
        raise verifier.refuse(i, "the position must be the same for all lanes of a workgroup")


def _constant(verifier: _Verifier, i: Instruction, scope: dict[int, DType]) -> None:
    a, d = i.attribute, i.type
    if type(a) is not d.python and not (d.is_float and type(a) is int):
        raise verifier.refuse(i, f"the number must be one of {d}, got {a!r}")
    if not d.is_inexact and not d.lowest <= a <= d.highest:  # type: ignore[operator]
        raise verifier.refuse(i, f"the number must fit {d}, got {a}")
    verifier.constants[i.result] = a


def _convert(verifier: _Verifier, i: Instruction, scope: dict[int, DType]) -> None:
    source, target = scope[i.operands[0]], i.type
    wordless = target is dtypes.index and source in NOT_INDEXABLE
    if wordless or (source is dtypes.index and target in NOT_INDEXABLE - FLOATS):
        raise verifier.refuse(
            i, f"index converts to numbers, and only integers convert to it, got {source} to {target}"
        )


def _bitcast(verifier: _Verifier, i: Instruction, scope: dict[int, DType]) -> None:
    source = scope[i.operands[0]]
    if source not in BITS or source.bits != i.type.bits:
        raise verifier.refuse(i, f"both dtypes must be numbers of one width, got {source} to {i.type}")


def _part(verifier: _Verifier, i: Instruction, scope: dict[int, DType]) -> None:
    whole = scope[i.operands[0]]
    if not whole.is_complex or whole.part is not i.type:
        raise verifier.refuse(i, f"it must give the part of a complex dtype, got {whole} to {i.type}")


def _pair(verifier: _Verifier, i: Instruction, scope: dict[int, DType]) -> None:
    part = scope[i.operands[0]]
    if i.type.part is not part:
        raise verifier.refuse(i, f"its parts must be {i.type.part}, got {part}")


_EXTRA = {
    Opcode.SHARED_AGREED: _agreed,
    Opcode.CONSTANT: _constant,
    Opcode.CONVERT: _convert,
    Opcode.BITCAST: _bitcast,
    Opcode.REAL: _part,
    Opcode.IMAG: _part,
    Opcode.PAIR: _pair,
}
_STRUCTURES = {
    Opcode.IF: _Verifier.verify_if,
    Opcode.LOOP: _Verifier.verify_loop,
    Opcode.WHILE: _Verifier.verify_while,
}
