"""Instructions as statements of a language: what the entry points of map and row programs share."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import contextmanager

import numpy as np

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Block, Instruction, Program
from hologram.compiler.analysis.reassociation import computed, fragile
from hologram.compiler.dialect import Declarations, Dialect
from hologram.compiler.source.body import Body
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, Number
from hologram.foundation.errors import UnsupportedDType

# Names the generator makes itself.
_OWN = re.compile(
    r"v\d+|i\d+|e\d+|p|lane|lanes|lanes_\d+|group|thread_index|word|first|number|inside|element|Element|extent_\d+|Parameters"
    r"|load_.*|store_.*|atomic_.*|next.*|.*_4|v\d+_.*|member|length|start|stop|whole|aligned|place|places_\d+|term_\d+|local_\d+|Term_\d+|partial_.*"
)


_THREADS = {Opcode.WORKGROUP: "group", Opcode.THREAD: "thread_index"}


def identifier(name: str, dialect: Dialect) -> str:
    """`name`, or a variant of it that is neither a reserved word, nor the generator's own, nor another's variant."""
    apart = name in dialect.reserved or _OWN.fullmatch(name) or name.endswith("_")
    return f"{name}_" if apart else name


def hidden(program: Program, dialect: Dialect) -> frozenset[int]:
    """The values that go through Dialect.hidden, where their dtype has one."""
    if not dialect.hidden:
        return frozenset()
    return computed(program) if dialect.hides_all else fragile(program, dialect.shortfalls)


class Emitter(Body):
    """Writes lines; knows how each value is called."""

    def __init__(self, program: Program, dialect: Dialect, declarations: Declarations) -> None:
        super().__init__(program, {})
        self.dialect = dialect
        self.declarations = declarations
        # By the names of the program; the declarations hold those of the source.
        self.buffers = {b.name: d for b, d in zip(program.buffers, declarations.buffers, strict=True)}
        self.buffer_names = {name: d.name for name, d in self.buffers.items()}
        self.shared_names = {
            s.name: d.name for s, d in zip(program.shared, declarations.shared, strict=False)
        }
        self.local_names = {a.name: f"local_{k}" for k, a in enumerate(program.local)}
        self.shared_atomics = {d.name for d in declarations.shared if d.atomic}
        self.constants: set[int] = set()  # values that are literals
        self.lines: list[str] = []
        self.helpers: dict[tuple[object, DType, str], None] = {}  # in the order of first use
        self.depth = 0
        self.fragile = hidden(program, dialect)
        self.guard = ""  # a condition under which effects on memory happen

    # Text.

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def scope(self, opening: str, closing: str = "}"):
        """Lines written inside are indented one step more."""
        self.line(opening)
        self.depth += 1
        yield
        self.depth -= 1
        self.line(closing)

    def let(self, name: str, dtype: DType, value: str) -> None:
        self.line(self.dialect.let.format(name=name, type=self.type(dtype), value=value))

    def var(self, name: str, dtype: DType, value: str) -> None:
        self.line(self.dialect.var.format(name=name, type=self.type(dtype), value=value))

    def loop(self, name: str, dtype: DType, start: str, stop: str, step: str):
        """The scope of a counted loop."""
        values = {"name": name, "type": self.type(dtype), "start": start, "stop": stop, "step": step}
        self.help("loop", dtype, "")
        return self.scope(self.dialect.loops.get(dtype, self.dialect.loop).format(**values))

    def type(self, dtype: DType) -> str:
        spelled = self.dialect.types.get(dtype)
        if spelled is None:
            raise UnsupportedDType(f"{self.program.name}: this adapter's {self.dialect.name} has no {dtype}")
        return spelled

    def literal(self, number: Number, dtype: DType) -> str:
        if dtype.is_float:
            with np.errstate(over="ignore"):
                narrow = float(dtype.numpy.type(number))
            if not math.isfinite(narrow) or (narrow == 0 and math.copysign(1, narrow) < 0):
                self.help("literal", dtype, "")
        return self.dialect.literal(dtype, number)

    def number(self, k: int) -> str:
        """A position as a literal."""
        return self.dialect.literal(dtypes.index, k)

    def extent(self, axis: int) -> str:
        return self.dialect.parameters[dtypes.index].format(f"extent_{axis}")

    def operation(self, opcode: Opcode, dtype: DType, result: DType, *operands: str) -> str:
        """An expression; `dtype` is that of the last operand."""
        template = self.dialect.operators.get((opcode, dtype))
        if template is None:
            raise UnsupportedDType(
                f"{self.program.name}: {self.dialect.name} has no {opcode.value} of {dtype}"
            )
        self.help(opcode, dtype, "")
        return template.format(*operands, type=self.type(result))

    def helper_text(self) -> list[str]:
        """The functions that the lines so far call."""
        texts: dict[str, None] = {}
        for key, dtype, buffer in self.helpers:
            text = (
                self.dialect.helpers[key, dtype].format(buffer=buffer)
                if buffer
                else self.dialect.helpers[key, dtype]
            )
            texts.setdefault(text)
        # A helper may consist of several, shared with others: each paragraph once.
        paragraphs = dict.fromkeys(p for text in texts for p in text.strip("\n").split("\n\n"))
        return [line for p in paragraphs for line in [*p.split("\n"), ""]]

    def help(self, key: object, dtype: DType, buffer: str) -> None:
        if (key, dtype) in self.dialect.helpers:
            self.helpers.setdefault((key, dtype, buffer))

    # Instructions.

    def position(self, opcode: Opcode, axis: int) -> str:
        if opcode is Opcode.COORDINATE:
            return f"i{axis}"
        if opcode is Opcode.EXTENT:
            return self.extent(axis)
        return "lane" if opcode is Opcode.LANE else self.index(_THREADS[opcode])

    def constant(self, i: Instruction) -> str:
        text = self.literal(i.attribute, i.type)  # type: ignore[arg-type]
        if i.result in self.fragile and i.type in self.dialect.hidden:
            return self._define(i, text)
        self.constants.add(i.result)
        return text

    def scalar(self, i: Instruction) -> str:
        text = self.dialect.parameters[i.type].format(identifier(str(i.attribute), self.dialect))
        return text if re.fullmatch(r"[\w.]+", text) else self._define(i, text)

    def pure(self, i: Instruction, operands: Sequence[str]) -> str:
        literals = i.opcode is not Opcode.LOAD and self.constants.issuperset(i.operands)
        if literals and self.dialect.folds:
            operands = [*(self._variable(i, text) for text in operands[:1]), *operands[1:]]
        return self._define(i, self._expression(i, operands))

    def _define(self, i: Instruction, value: str) -> str:
        """A variable of the instruction's value."""
        if i.result in self.fragile and i.type in self.dialect.hidden:
            self.help("hidden", i.type, "")
            value = self.dialect.hidden[i.type].format(value)
        name = f"v{i.result}"
        self.let(name, i.type, value)
        return name

    def _variable(self, i: Instruction, text: str) -> str:
        """The first operand, a literal, as a variable."""
        name = f"v{i.result}_first"
        self.var(name, self.types[i.operands[0]], text)
        return name

    def index(self, text: str) -> str:
        return text if self.dialect.index_bits == 32 else f"({self.type(dtypes.index)}){text}"

    def _expression(self, i: Instruction, operands: Sequence[str]) -> str:
        dialect, types = self.dialect, self.types
        if i.opcode is Opcode.LOAD:
            return self.load(i, operands[0])
        if i.opcode is Opcode.SHARED_LOAD:
            name = self.shared_names[str(i.attribute)]
            table = dialect.shared_atomic_loads if name in self.shared_atomics else dialect.shared_loads
            return table.get(i.type, "{buffer}[{position}]").format(buffer=name, position=operands[0])
        if i.opcode is Opcode.SHARED_AGREED:
            return dialect.agreed.format(buffer=self.shared_names[str(i.attribute)], position=operands[0])
        if i.opcode is Opcode.LOCAL_LOAD:
            return f"{self.local_names[str(i.attribute)]}[{operands[0]}]"
        if i.opcode in (Opcode.CONVERT, Opcode.BITCAST):
            return self.conversion(i.opcode, types[i.operands[0]], i.type, operands[0])
        return self.operation(i.opcode, types[i.operands[-1]], i.type, *operands)

    def conversion(self, opcode: Opcode, source: DType, target: DType, operand: str) -> str:
        """An expression that converts or bitcasts."""
        if source == target:
            return operand
        table = self.dialect.conversions if opcode is Opcode.CONVERT else self.dialect.bitcasts
        if (source, target) not in table:
            what = f"no {opcode.value} from {source} to {target}"
            raise UnsupportedDType(f"{self.program.name}: this adapter's {self.dialect.name} has {what}")
        self.help((opcode, source), target, "")
        return table[source, target].format(operand, type=self.type(target))

    def load(self, i: Instruction, position: str) -> str:
        """The expression of one element's load, at another position than the instruction's perhaps."""
        buffer = self.buffers[str(i.attribute)]
        if buffer.vector:
            kind, table, default = "vector load", self.dialect.vector_loads, self.dialect.lane
        elif buffer.atomic:
            kind, table, default = "atomic load", self.dialect.atomic_loads, "{buffer}[{position}]"
        else:
            kind, table, default = "load", self.dialect.loads, "{buffer}[{position}]"
        self.help(kind, i.type, buffer.name)
        position = f"({position})" if " " in position else position
        return table.get(i.type, default).format(buffer=buffer.name, position=position)

    def store(self, i: Instruction, position: str, value: str) -> None:
        """The statement of one element's store, at another position than the instruction's perhaps."""
        buffer = self.buffers[str(i.attribute)]
        position = f"({position})" if " " in position else position
        if buffer.vector:
            template = f"{self.dialect.lane} = {{value}};"
        else:
            table = self.dialect.atomic_stores if buffer.atomic else self.dialect.stores
            template = table.get(buffer.dtype, "{buffer}[{position}] = {value};")
            self.help("store", buffer.dtype, buffer.name)
        self.guarded(template.format(buffer=buffer.name, position=position, value=value))

    def shared_store(self, i: Instruction, position: str, value: str) -> None:
        name = str(i.attribute)
        self.guarded(self.share(name, self.shared_dtype(name), position, value))

    def barrier(self) -> None:
        self.line(self.dialect.barrier)

    def shuffle(self, i: Instruction, value: str, number: str) -> str:
        return self._define(i, self.dialect.shuffle[i.type].format(value, number))

    def share(self, name: str, dtype: DType, position: str, value: str) -> str:
        """The statement that stores an element of a shared array."""
        name = self.shared_names[name]
        atomic = name in self.shared_atomics
        table = self.dialect.shared_atomic_stores if atomic else self.dialect.shared_stores
        template = table.get(dtype, "{buffer}[{position}] = {value};")
        return template.format(buffer=name, position=position, value=value)

    def local_store(self, i: Instruction, position: str, value: str) -> None:
        self.line(f"{self.local_names[str(i.attribute)]}[{position}] = {value};")

    def locals(self) -> None:
        """Declares the arrays of a lane, which begin as zeros."""
        for array in self.program.local:
            name = self.local_names[array.name]
            self.line(self.dialect.array.format(name=name, type=self.type(array.dtype), size=array.size))

    def guarded(self, statement: str) -> None:
        """A statement with an effect, which only lanes of the grid may have."""
        if not self.guard:
            self.line(statement)
            return
        with self.scope(f"if ({self.guard}) {{"):
            self.line(statement)

    def atomic(self, i: Instruction, position: str, *values: str) -> str:
        shared = str(i.attribute) in self.shared_names
        buffer = (self.shared_names if shared else self.buffer_names)[str(i.attribute)]
        table = self.dialect.shared_atomics if shared else self.dialect.atomics
        template = table.get((i.opcode, i.type))
        if template is None:
            raise UnsupportedDType(
                f"{self.program.name}: {self.dialect.name} has no {i.opcode.value} of {i.type}"
            )
        self.help(i.opcode, i.type, buffer)
        if shared:
            self.help(("shared", i.opcode), i.type, buffer)
        text = template.format(buffer=buffer, position=position, expected=values[0], value=values[-1])
        if not self.guard:
            return self._define(i, text)
        name = f"v{i.result}"
        self.var(name, i.type, self.literal(i.type.python(0), i.type))
        with self.scope(f"if ({self.guard}) {{"):
            self.line(f"{name} = {text};")
        return name

    def if_(self, i: Instruction, condition: str) -> None:
        for result, dtype in zip(i.results, i.types, strict=True):
            self.values[result] = f"v{result}"
            self.var(f"v{result}", dtype, self.literal(dtype.python(0), dtype))
        then, orelse = i.blocks
        has_else = bool(orelse.instructions or orelse.yields)
        with self.scope(f"if ({condition}) {{", "} else {" if has_else else "}"):
            self._yield(then, i.results)
        if has_else:
            self.depth += 1
            self._yield(orelse, i.results)
            self.depth -= 1
            self.line("}")

    def _yield(self, block: Block, results: Sequence[int]) -> None:
        self.instructions(block.instructions)
        for result, value in zip(results, block.yields, strict=True):
            self.line(f"{self.values[result]} = {self.values[value]};")

    def while_(self, i: Instruction, condition: str, *first: str) -> None:
        (block,) = i.blocks
        on = f"v{block.yields[0]}_on" if not i.results else f"v{i.results[0]}_on"
        self.var(on, dtypes.bool_, condition)
        for result, argument, dtype, value in zip(i.results, block.arguments, i.types, first, strict=True):
            self.values[result] = self.values[argument] = f"v{result}"
            self.var(f"v{result}", dtype, value)
        with self.scope(self.dialect.while_.format(condition=on)):
            self.instructions(block.instructions)
            self.line(f"{on} = {self.values[block.yields[0]]};")
            self._next(i, block.yields[1:])

    def _next(self, i: Instruction, yields: Sequence[int]) -> None:
        """What a round hands to the next one."""
        targets = [self.values[r] for r in i.results]
        values = [self.values[v] for v in yields]
        for k, (dtype, value) in enumerate(zip(i.types, values, strict=True)):
            if value in targets and value != targets[k]:  # carried values that change places
                values[k] = f"next_{targets[k]}"
                self.let(values[k], dtype, value)
        for target, value in zip(targets, values, strict=True):
            if target != value:
                self.line(f"{target} = {value};")

    def loop_(self, i: Instruction, start: str, stop: str, step: str, *first: str) -> None:
        (block,) = i.blocks
        for result, argument, dtype, value in zip(
            i.results, block.arguments[1:], i.types, first, strict=True
        ):
            self.values[result] = self.values[argument] = f"v{result}"
            self.var(f"v{result}", dtype, value)
        counter = f"v{block.arguments[0]}"
        self.values[block.arguments[0]] = counter
        with self.loop(counter, block.argument_types[0], start, stop, step):
            self.instructions(block.instructions)
            self._next(i, block.yields)
