"""Writing Atlas programs in Python: a Builder collects instructions, a Value is one result with Python's operators.

So y = a x + y is written:

    b = Builder("atlas_axpy_f32")
    x, y = b.buffer("x", f32, Access.READ), b.buffer("y", f32, Access.READ_WRITE)
    a = b.scalar("a", f32)
    i = b.coordinate(0)
    b.store(y, i, a * b.load(x, i) + b.load(y, i))
    program = b.build()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

from hologram.atlas.opcodes import COMPARISONS, PURE, Opcode
from hologram.atlas.program import (
    Access,
    Block,
    BufferParameter,
    Instruction,
    LocalArray,
    Program,
    ScalarParameter,
    SharedArray,
)
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ProgramError
from hologram.foundation.frozen import frozen

Number = bool | int | float | complex


def _operator(opcode: Opcode, *, swap: bool = False) -> Callable[[Value, Value | Number], Value]:
    def apply(x: Value, y: Value | Number) -> Value:
        builder = x.builder
        y = builder.value(y, x.dtype)
        result = dtypes.bool_ if opcode in COMPARISONS else x.dtype
        return builder.emit(opcode, result, y, x) if swap else builder.emit(opcode, result, x, y)

    return apply


@frozen(slots=True, eq=False)
class Value:
    """A value of the program under construction; Python numbers beside it take its dtype."""

    builder: Builder
    id: int
    dtype: DType

    __add__, __radd__ = _operator(Opcode.ADD), _operator(Opcode.ADD, swap=True)
    __sub__, __rsub__ = _operator(Opcode.SUB), _operator(Opcode.SUB, swap=True)
    __mul__, __rmul__ = _operator(Opcode.MUL), _operator(Opcode.MUL, swap=True)
    __truediv__, __rtruediv__ = _operator(Opcode.DIV), _operator(Opcode.DIV, swap=True)
    __floordiv__ = _operator(Opcode.DIV)  # of integers and indices: it truncates
    __mod__ = _operator(Opcode.REM)  # the sign of the dividend
    __and__, __or__, __xor__ = _operator(Opcode.AND), _operator(Opcode.OR), _operator(Opcode.XOR)
    __lshift__, __rshift__ = _operator(Opcode.SHL), _operator(Opcode.SHR)
    __lt__, __le__ = _operator(Opcode.LT), _operator(Opcode.LE)
    __gt__, __ge__ = _operator(Opcode.GT), _operator(Opcode.GE)

    # Spelled out, since `object` says they give a bool.
    def __eq__(self, other: Value | Number) -> Value:  # type: ignore[override]
        return self.builder.emit(Opcode.EQ, dtypes.bool_, self, self.builder.value(other, self.dtype))

    def __ne__(self, other: Value | Number) -> Value:  # type: ignore[override]
        return self.builder.emit(Opcode.NE, dtypes.bool_, self, self.builder.value(other, self.dtype))

    def __neg__(self) -> Value:
        return self.builder.emit(Opcode.NEG, self.dtype, self)

    def __invert__(self) -> Value:
        return self.builder.emit(Opcode.NOT, self.dtype, self)

    def __bool__(self) -> bool:
        raise ProgramError("a Value has no truth at build time: use select or Builder.if_")

    def __hash__(self) -> int:
        return self.id

    def to(self, dtype: DType) -> Value:
        """Converted, unless it has that dtype already."""
        return self if dtype == self.dtype else self.builder.emit(Opcode.CONVERT, dtype, self)

    def bitcast(self, dtype: DType) -> Value:
        return self.builder.emit(Opcode.BITCAST, dtype, self)


class Region:
    """A block under construction, which may be entered again until an instruction takes it."""

    def __init__(self, arguments: tuple[Value, ...]) -> None:
        self.arguments = arguments
        self.instructions: list[Instruction] = []
        self.known: dict[tuple, Value] = {}

    def block(self, yields: Sequence[Value]) -> Block:
        """The finished block."""
        return Block(
            tuple(self.instructions),
            tuple(a.id for a in self.arguments),
            tuple(a.dtype for a in self.arguments),
            tuple(v.id for v in yields),
        )


class Builder:
    """Collects a program; equal pure instructions in reach of each other are emitted once."""

    def __init__(
        self,
        name: str,
        *,
        rank: int = 1,
        reduced: int = 0,
        workgroup: int | None = None,
        disjoint: bool = False,
    ) -> None:
        self.name = name
        self.rank = rank
        self.reduced = reduced
        if workgroup is not None and not isinstance(workgroup, int):
            raise ProgramError(
                f"{name}: a workgroup is how many threads it has, one whole number, got {workgroup!r}"
            )
        self.workgroup = workgroup
        self.disjoint = disjoint
        self._buffers: list[BufferParameter] = []
        self._scalars: list[ScalarParameter] = []
        self._shared: list[SharedArray] = []
        self._local: list[LocalArray] = []
        self._scopes: list[list[Instruction]] = [[]]
        self._known: list[dict[tuple, Value]] = [{}]
        self._count = 0

    # Parameters.

    def buffer(self, name: str, dtype: DType, access: Access) -> BufferParameter:
        parameter = BufferParameter(name, dtype, access)
        self._buffers.append(parameter)
        return parameter

    def scalar(self, name: str, dtype: DType) -> Value:
        self.declare(ScalarParameter(name, dtype))
        return self.emit(Opcode.SCALAR, dtype, attribute=name)

    def declare(self, parameter: ScalarParameter) -> None:
        """A scalar in its place among the launch arguments, before it is first read."""
        if parameter not in self._scalars:
            self._scalars.append(parameter)

    def shared(self, name: str, dtype: DType, size: int) -> SharedArray:
        array = SharedArray(name, dtype, size)
        self._shared.append(array)
        return array

    def local(self, name: str, dtype: DType, size: int) -> LocalArray:
        array = LocalArray(name, dtype, size)
        self._local.append(array)
        return array

    # Values.

    def value(self, x: Value | Number, dtype: DType) -> Value:
        """`x` itself, or a constant of `dtype` for a Python number; a Value of another dtype is refused."""
        if not isinstance(x, Value):
            return self.constant(x, dtype)
        if x.dtype != dtype:
            raise ProgramError(f"{self.name}: operands must have one dtype, got {dtype} and {x.dtype}")
        return x

    def constant(self, number: Number, dtype: DType) -> Value:
        return self.emit(Opcode.CONSTANT, dtype, attribute=dtype.python(number))  # type: ignore[arg-type]

    def coordinate(self, axis: int) -> Value:
        return self.emit(Opcode.COORDINATE, dtypes.index, attribute=axis)

    def extent(self, axis: int) -> Value:
        return self.emit(Opcode.EXTENT, dtypes.index, attribute=axis)

    def position(self, opcode: Opcode) -> Value:
        """`lane`, `workgroup` or `thread`."""
        return self.emit(opcode, dtypes.index)

    # Memory.

    def load(self, buffer: BufferParameter, position: Value) -> Value:
        return self.emit(Opcode.LOAD, buffer.dtype, position, attribute=buffer.name)

    def store(self, buffer: BufferParameter, position: Value, value: Value | Number) -> None:
        self._append(Opcode.STORE, (), (position, self.value(value, buffer.dtype)), buffer.name)

    def shared_load(self, array: SharedArray, position: Value) -> Value:
        return self.emit(Opcode.SHARED_LOAD, array.dtype, position, attribute=array.name)

    def shared_agreed(self, array: SharedArray, position: Value) -> Value:
        """What all lanes of a workgroup read alike, so that they may meet in what depends on it."""
        return self.emit(Opcode.SHARED_AGREED, array.dtype, position, attribute=array.name)

    def shared_store(self, array: SharedArray, position: Value, value: Value | Number) -> None:
        self._append(Opcode.SHARED_STORE, (), (position, self.value(value, array.dtype)), array.name)

    def local_load(self, array: LocalArray, position: Value) -> Value:
        return self.emit(Opcode.LOCAL_LOAD, array.dtype, position, attribute=array.name)

    def local_store(self, array: LocalArray, position: Value, value: Value | Number) -> None:
        self._append(Opcode.LOCAL_STORE, (), (position, self.value(value, array.dtype)), array.name)

    def atomic(
        self, opcode: Opcode, memory: BufferParameter | SharedArray, position: Value, *values: Value | Number
    ) -> Value:
        """The old value; `values` are the new one, or before it the one that is expected."""
        given = [self.value(v, memory.dtype) for v in values]
        return self.emit(opcode, memory.dtype, position, *given, attribute=memory.name)

    def write(self, opcode: Opcode, name: str, *operands: Value) -> None:
        """An instruction with an effect on memory and without a result."""
        self._append(opcode, (), operands, name)

    def barrier(self) -> None:
        self._append(Opcode.BARRIER, (), ())

    # Structure.

    def if_(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value] | None],
        orelse: Callable[[], Sequence[Value] | None],
    ) -> tuple[Value, ...]:
        """Runs one of two blocks; both yield values of the same dtypes."""
        blocks, types = [], []
        for body in (then, orelse):
            block, yielded = self._block((), lambda body=body: body() or ())
            blocks.append(block)
            types.append(yielded)
        if types[0] != types[1]:
            raise ProgramError(
                f"{self.name}: both sides of an if must yield the same dtypes, got {types[0]}, {types[1]}"
            )
        return self._append(Opcode.IF, types[0], (condition,), None, tuple(blocks))

    def loop(
        self,
        start: Value | int,
        stop: Value | int,
        body: Callable[..., Sequence[Value] | None],
        *,
        first: Sequence[Value] = (),
        step: Value | int = 1,
        dtype: DType = dtypes.index,
    ) -> tuple[Value, ...]:
        """Counts from start below stop; `body(counter, *carried)` returns the next carried values."""
        bounds = tuple(self.value(x, dtype) for x in (start, stop, step))
        block, yielded = self._block((dtype, *(v.dtype for v in first)), lambda *args: body(*args) or ())
        if yielded != tuple(v.dtype for v in first):
            raise ProgramError(
                f"{self.name}: a loop must yield what it carries, {[v.dtype for v in first]}, got {yielded}"
            )
        return self._append(Opcode.LOOP, yielded, (*bounds, *first), None, (block,))

    # Structure in parts: a block's dtypes may be known only once another one is written.

    def region(self, argument_types: Sequence[DType] = ()) -> Region:
        """An empty block with values that enter it."""
        return Region(tuple(self._new(t) for t in argument_types))

    @contextmanager
    def inside(self, region: Region) -> Iterator[None]:
        """What is emitted goes to the end of a block."""
        self._scopes.append(region.instructions)
        self._known.append(region.known)
        try:
            yield
        finally:
            self._known.pop()
            self._scopes.pop()

    def branch(
        self, condition: Value, then: Region, orelse: Region, yields: tuple[Sequence[Value], Sequence[Value]]
    ) -> tuple[Value, ...]:
        """An `if` of two blocks, and what each yields."""
        blocks = then.block(yields[0]), orelse.block(yields[1])
        return self._append(Opcode.IF, tuple(v.dtype for v in yields[0]), (condition,), None, blocks)

    def counted(
        self,
        bounds: tuple[Value, Value, Value],
        first: Sequence[Value],
        body: Region,
        yields: Sequence[Value],
    ) -> tuple[Value, ...]:
        """A `loop` of a block that takes the counter and what is carried; bounds are start, stop and step."""
        types = tuple(v.dtype for v in first)
        return self._append(Opcode.LOOP, types, (*bounds, *first), None, (body.block(yields),))

    def repeated(
        self, condition: Value, first: Sequence[Value], body: Region, yields: Sequence[Value]
    ) -> tuple[Value, ...]:
        """A `while` of a block that takes what is carried, and yields whether to go on and what to carry."""
        types = tuple(v.dtype for v in first)
        return self._append(Opcode.WHILE, types, (condition, *first), None, (body.block(yields),))

    def while_(
        self, condition: Value, body: Callable[..., Sequence[Value]], *, first: Sequence[Value] = ()
    ) -> tuple[Value, ...]:
        """Goes on while the condition holds; `body(*carried)` returns the next condition, then what is carried on."""
        region = self.region([v.dtype for v in first])
        with self.inside(region):
            yields = tuple(body(*region.arguments))
        types = [v.dtype for v in yields]
        if types != [dtypes.bool_, *(v.dtype for v in first)]:
            raise ProgramError(
                f"{self.name}: a while must yield a bool and what it carries, {[v.dtype for v in first]}, got {types}"
            )
        return self.repeated(condition, first, region, yields)

    def emit(
        self, opcode: Opcode, dtype: DType, *operands: Value, attribute: Number | str | None = None
    ) -> Value:
        """One instruction with one result; a pure one that is in reach already is not repeated."""
        if opcode not in PURE:
            return self._append(opcode, (dtype,), operands, attribute)[0]
        # repr keeps 0.0, -0.0, 0, False and NaN apart, also as parts of complex numbers.
        key = (opcode, dtype, tuple(o.id for o in operands), repr(attribute))
        for known in self._known:
            if key in known:
                return known[key]
        result = self._append(opcode, (dtype,), operands, attribute)[0]
        self._known[-1][key] = result
        return result

    @property
    def parameters(self) -> Sequence[BufferParameter]:
        """The buffers so far."""
        return self._buffers

    @property
    def written(self) -> Iterator[Instruction]:
        """The instructions so far that the next one may use the results of, in order."""
        return chain.from_iterable(self._scopes)

    def build(self) -> Program:
        """The finished program."""
        return Program(
            self.name,
            tuple(self._buffers),
            tuple(self._scalars),
            tuple(self._shared),
            self.rank,
            self.reduced,
            self.workgroup,
            Block(tuple(self._scopes[0])),
            tuple(self._local),
            self.disjoint,
        )

    def _new(self, dtype: DType) -> Value:
        self._count += 1
        return Value(self, self._count - 1, dtype)

    def _append(
        self,
        opcode: Opcode,
        types: tuple[DType, ...],
        operands: tuple[Value, ...],
        attribute: Number | str | None = None,
        blocks: tuple[Block, ...] = (),
    ) -> tuple[Value, ...]:
        results = tuple(self._new(t) for t in types)
        ids = tuple(r.id for r in results)
        instruction = Instruction(opcode, ids, types, tuple(o.id for o in operands), attribute, blocks)
        self._scopes[-1].append(instruction)
        return results

    def _block(
        self, argument_types: tuple[DType, ...], body: Callable[..., Sequence[Value]]
    ) -> tuple[Block, tuple[DType, ...]]:
        region = self.region(argument_types)
        with self.inside(region):
            yields = tuple(body(*region.arguments))
        return region.block(yields), tuple(v.dtype for v in yields)
