"""From a function to a program: its parameters, its body, and what the launch must hand over."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Any

from hologram.atlas.derivatives.replayed import NoDerivative
from hologram.atlas.opcodes import READS, WRITES, Opcode
from hologram.atlas.program import Access, Block, BufferParameter, Program, written
from hologram.atlas.ssa import has_effect, sources
from hologram.atlas.verify import verify
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import (
    GradientError,
    KernelError,
    ProgramError,
    UnsupportedDType,
)
from hologram.foundation.frozen import frozen
from hologram.kernels.bounds import Checks, Site
from hologram.kernels.grid import SIZE, Grid
from hologram.kernels.language import ArrayType
from hologram.kernels.numbers import Numbers
from hologram.kernels.prints import Print
from hologram.kernels.scope import Located
from hologram.kernels.source import Source, names_of, read
from hologram.kernels.statements import Statements
from hologram.kernels.values import Array, Number

Parameter = ArrayType | DType
_NAME = re.compile(r"[A-Za-z](_?[A-Za-z0-9])*")
_PYTHON = {int: dtypes.i32, float: dtypes.f32, bool: dtypes.bool_}


@frozen(eq=False)
class Compiled:
    """A kernel for grids of so many axes.

    `buffers` and `scalars` say where the program's parameters come from: the number of the argument, and for the
    length of an array's axis that axis.
    """

    program: Program
    buffers: tuple[int, ...]
    scalars: tuple[tuple[int | None, int | None], ...]  # the argument: None of the grid's own sizes
    workgroup: tuple[int, ...] | None
    shared: tuple[tuple[int, Source, ast.AST], ...]  # bytes of shared arrays, and where they are asked for
    sites: tuple[Site, ...] = ()  # where indices and assertions are checked
    prints: tuple[Print, ...] = ()  # likewise
    origins: Mapping[int, tuple[Source, ast.AST]] = field(default_factory=dict)  # by the id of an instruction

    def located(self, error: NoDerivative) -> GradientError:
        """The error, at the line of Python where its instruction comes from."""
        source, node = self.origins.get(id(error.instruction), (None, None))
        return error if source is None else GradientError(str(source.refuse(node, error.why)))

    def check(self, shared_bytes: int, threads: int) -> None:
        """Raises KernelError where a device has less shared memory, or smaller workgroups."""
        total = 0
        for size, source, node in self.shared:
            total += size
            if total > shared_bytes:
                raise source.refuse(
                    node, f"a workgroup of this device shares {shared_bytes} bytes, and this makes {total}"
                )
        if math.prod(self.workgroup or ()) > threads:
            raise KernelError(
                f"{self.program.name}: a workgroup of this device has at most {threads} threads, got {self.workgroup}"
            )


def settled(function: Any, around: Mapping[str, Any]) -> dict[str, Any]:
    """A function's annotations; those that are text have the value that they have among the names around it."""
    found = dict(getattr(function, "__annotations__", {}))
    for name, annotation in found.items():
        if isinstance(annotation, str):
            with suppress(NameError, AttributeError, TypeError, SyntaxError):
                found[name] = eval(annotation, {**names_of(function), **around})
    return found


def parameters_of(source: Source, annotations: Mapping[str, Any]) -> dict[str, Parameter]:
    """What each argument is, by its annotation."""
    found: dict[str, Parameter] = {}
    arguments = source.tree.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults:
        raise source.refuse(source.tree, "a kernel's arguments are given in order, without defaults")
    for argument in (*arguments.posonlyargs, *arguments.args):
        if argument.annotation is None:
            raise source.refuse(
                argument, f"{argument.arg} needs an annotation: {argument.arg}: hg.f32 or hg.Array[hg.f32, 1]"
            )
        found[argument.arg] = _parameter(source, argument, annotations[argument.arg])
    return found


def _parameter(source: Source, argument: ast.arg, annotation: Any) -> Parameter:
    if isinstance(annotation, str):
        raise source.refuse(argument, f"the annotation {annotation!r} has no value where the kernel is made")
    if isinstance(annotation, ArrayType):
        return annotation
    dtype = _PYTHON.get(annotation) if isinstance(annotation, type) else annotation
    if isinstance(dtype, DType):
        return dtype
    try:
        return dtypes.dtype(annotation)
    except (UnsupportedDType, TypeError):
        shown = getattr(annotation, "__name__", repr(annotation))
        raise source.refuse(
            argument, f"an annotation must be a dtype or hg.Array[...], got {shown}"
        ) from None


def compiled(
    function: Any,
    parameters: Mapping[str, Parameter],
    rank: int,
    workgroup: tuple[int, ...] | None = None,
    *,
    checked: bool = False,
    disjoint: bool = False,
) -> Compiled:
    """The program of a kernel for grids of `rank` axes; raises KernelError, which names the line.

    With `checked` it has a last buffer, of i32, that tells of what fails and what is printed; see bounds.py. `disjoint`
    says that no two points store into one element.
    """
    source = read(function)
    if workgroup is not None and len(workgroup) != rank:
        raise source.refuse(
            None, f"workgroups of {workgroup} are for grids of {len(workgroup)} axes, got {rank}"
        )
    # A function may have the name of one of C's (`step` is), which the symbol of a kernel must not.
    name = f"kernel_{source.name}" if _NAME.fullmatch(f"kernel_{source.name}") else "kernel"
    flat = workgroup is not None
    b = Located(name, rank=1 if flat else rank, workgroup=math.prod(workgroup) if workgroup else None)
    c = Statements(b, source, Grid(b, Numbers(b), rank, workgroup))
    values: dict[str, Any] = {}
    lengths: dict[str, tuple[int | None, int | None]] = {SIZE.format(k): (None, k) for k in range(rank)}
    taken = {name, *lengths, *(n for n in parameters if _NAME.fullmatch(n))}
    for k, (argument, parameter) in enumerate(parameters.items()):
        plain = argument if _NAME.fullmatch(argument) and argument != name else _free(f"argument{k}", taken)
        if isinstance(parameter, DType):
            lengths[plain] = (k, None)
            values[argument] = Number(b.scalar(plain, parameter))
        else:
            values[argument] = _array(c, argument, plain, parameter, k, taken, lengths)
    if checked:
        c.checks = Checks(b, _free("outside", taken), c.grid)
    c.enter(source, values, function)
    program = replace(_finished(b, source), disjoint=disjoint)
    order = [n for n, p in parameters.items() if isinstance(p, ArrayType)]
    places = {n: k for k, n in enumerate(parameters)}
    return Compiled(
        program,
        tuple(places[n] for n in order),
        tuple(lengths[s.name] for s in program.scalars),
        workgroup,
        tuple(b.sized),
        tuple(c.checks.sites) if c.checks is not None else (),
        tuple(c.checks.prints) if c.checks is not None else (),
        {id(i): b.origins[id(i)] for i in program.body.walk() if id(i) in b.origins},
    )


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "x"
    taken.add(name)
    return name


def _array(
    c: Statements,
    argument: str,
    plain: str,
    parameter: ArrayType,
    number: int,
    taken: set[str],
    lengths: dict[str, tuple[int | None, int | None]],
) -> Array:
    shape = []
    for axis in range(parameter.rank):
        length = _free(f"{plain}_size{axis}", taken)
        lengths[length] = (number, axis)
        shape.append(c.numbers.counted(c.b.scalar(length, dtypes.index)))
    c.b.buffer(plain, parameter.dtype, Access.READ_WRITE)
    return Array(plain, parameter.dtype, tuple(shape), "buffer", argument)


def _finished(b: Located, source: Source) -> Program:
    """The verified program, whose buffers have the access that it uses, and whose scalars are those that it reads."""
    program = b.build()
    kept = sources(program.body.instructions, (), keep=has_effect)
    walk = [*Block(kept).walk()]
    read, stored = ({i.attribute for i in walk if i.opcode in among} for among in (READS, WRITES))
    scalars = {i.attribute for i in walk if i.opcode is Opcode.SCALAR}

    def access(buffer: BufferParameter) -> BufferParameter:
        if buffer.name not in stored:
            return replace(buffer, access=Access.READ)
        return replace(buffer, access=Access.READ_WRITE if buffer.name in read else Access.WRITE)

    program = replace(
        program,
        buffers=tuple(map(access, program.buffers)),
        scalars=tuple(s for s in program.scalars if s.name in scalars),
        body=Block(kept),
    )
    _verified(program, b, source)
    return program


def _verified(program: Program, b: Located, source: Source) -> None:
    """Raises KernelError at the line of Python for a program that breaks a rule of Atlas."""
    try:
        verify(program)
    except ProgramError as error:
        found = re.search(r": line (\d+): (.*)", str(error), re.DOTALL)
        lines = {line: number for number, line in written(program, {})[1].items()}
        origin = b.origins.get(lines.get(int(found[1]), 0)) if found else None
        where, node = origin or (source, source.tree)
        raise where.refuse(node, found[2] if found else str(error)) from error
