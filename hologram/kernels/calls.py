"""What a kernel can call: a table from functions to what they compute."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from hologram.atlas.opcodes import Opcode
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.kernels import functions, language, memory, prints, subgroups
from hologram.kernels.values import Array, Literal, Number, Several, Static, leaves, several, spelled
from hologram.kernels.vectors import Matrix, Parts, vec2, vec3, vec4

O = Opcode
Statements = Any  # of statements.py, which imports this
VECTORS: Mapping[int, type] = {2: vec2, 3: vec3, 4: vec4}
CAST_TYPES: Mapping[type, DType] = functions.CASTS


def call(c: Statements, function: Any, node: ast.Call) -> Any:
    """What a call gives."""
    if isinstance(function, language.Func):
        return inlined(c, function.function, node)
    if isinstance(function, type) and (issubclass(function, Parts) or is_dataclass(function)):
        return _made(c, function, node)
    if function is print:  # where nothing is printed, nothing of it is computed
        if c.checks is not None:
            prints.printed(c, c.checks, node)
        return Static(None)
    reading = subgroups.HANDLERS.get(id(function))
    if reading is not None:
        return reading(c, node)
    handler = _table().get(id(function)) if not isinstance(function, DType) else None
    if handler is not None:
        return handler(c, node, *_arguments(c, node))
    dtype = c.dtype_of(function)
    if dtype is not None:
        arguments = _arguments(c, node)
        plain = _of_constant(function, arguments) if isinstance(function, type) else None
        return _cast(c, dtype, node, *arguments) if plain is None else plain
    named = functions.named().get(id(function))
    if named is not None:
        kind, opcode, _ = named
        family = _FAMILIES[kind]
        return family(c, node, opcode, *_arguments(c, node))
    name = getattr(function, "__name__", repr(function))
    hint = "; put @hg.func above it" if type(function).__name__ == "function" else ""
    raise c.refuse(node, f"{name} cannot be called in a kernel{hint}")


def _arguments(c: Statements, node: ast.Call) -> list[Any]:
    if node.keywords:
        raise c.refuse(node, "it takes no arguments by name in a kernel")
    return [*c.tuple_(ast.copy_location(ast.Tuple(node.args, ast.Load()), node)).items]


def inlined(c: Statements, function: Any, node: ast.Call, *first: Any) -> Any:
    """The body of a function, written where it is called."""
    positional = c.tuple_(ast.copy_location(ast.Tuple(node.args, ast.Load()), node)).items
    named = {k.arg: c.expression(k.value) for k in node.keywords if k.arg is not None}
    return c.inline(function, c.bound(function, node, (*first, *positional), named), node)


def _made(c: Statements, kind: type, node: ast.Call) -> Several:
    """A vector or a dataclass of its parts."""
    if not issubclass(kind, Parts):
        positional = c.tuple_(ast.copy_location(ast.Tuple(node.args, ast.Load()), node)).items
        named = {k.arg: c.expression(k.value) for k in node.keywords if k.arg is not None}
        given = c.bound(kind, node, positional, named)
        return several(kind, [given[f.name] for f in fields(kind)])  # type: ignore[arg-type]
    width = len(kind.NAMES)
    count = width * width if issubclass(kind, Matrix) else width
    flat = [
        x
        for part in _arguments(c, node)
        for x in (leaves(part) if isinstance(part, Several) and issubclass(part.kind, Parts) else (part,))
    ]
    flat = flat * count if len(flat) == 1 else flat
    if len(flat) != count:
        raise c.refuse(node, f"{kind.__name__} takes 1 or {count} numbers, got {len(flat)}")
    numbers = [c.plain(x, node) for x in flat]
    if not issubclass(kind, Matrix):
        return several(kind, numbers)
    rows = [several(kind.ROW, numbers[k : k + width]) for k in range(0, count, width)]
    return several(kind, rows)


# Numbers.


def _one(c: Statements, node: ast.Call, arguments: tuple[Any, ...], count: int = 1) -> None:
    if len(arguments) != count:
        raise c.refuse(node, f"it takes {count} argument{'s' * (count > 1)}, got {len(arguments)}")


def _cast(c: Statements, dtype: DType, node: ast.Call, *arguments: Any) -> Any:
    _one(c, node, arguments)
    return c.by_parts(node, arguments[0], lambda x: c.numbers.converted(x, dtype))


def _of_constant(kind: type, arguments: Sequence[Any]) -> Literal | None:
    """What Python's int, float and bool make of a constant is one too: a shape, or `float("inf")`."""
    one = arguments[0] if len(arguments) == 1 else None
    if not isinstance(one, Literal) and not (isinstance(one, Static) and isinstance(one.value, str)):
        return None
    with suppress(ValueError, OverflowError):
        found = kind(one.number if isinstance(one, Literal) else one.value)
        return Literal(found) if kind is not int or dtypes.i32.lowest <= found <= dtypes.i32.highest else None
    return None


def _float(c: Statements, node: ast.Call, opcode: Opcode, *arguments: Any) -> Any:
    _one(c, node, arguments)

    def one(x: Number | Literal) -> Number:
        dtype = c.numbers.dtype(x)
        value = c.numbers.converted(x, dtype if dtype.is_float else dtypes.f32).value
        return Number(c.b.emit(opcode, value.dtype, value))

    return c.by_parts(node, arguments[0], one)


def _number(c: Statements, node: ast.Call, opcode: Opcode, *arguments: Any) -> Any:
    _one(c, node, arguments)

    def one(x: Number | Literal) -> Number | Literal:
        if isinstance(x, Literal):
            return Literal(abs(x.number))
        if x.dtype.kind == "bool":
            raise c.refuse(node, "abs takes numbers, got bool")
        return Number(c.b.emit(opcode, x.dtype, x.value), positive=x.dtype.is_float)

    return c.by_parts(node, arguments[0], one)


def _fold(c: Statements, node: ast.Call, opcode: Opcode, *arguments: Any) -> Any:
    if len(arguments) == 1 and isinstance(arguments[0], Several):
        arguments = arguments[0].items
    if len(arguments) < 2:
        raise c.refuse(
            node, "it takes at least 2 numbers in a kernel: reductions of arrays are written as loops"
        )
    result = c.plain(arguments[0], node)
    for following in arguments[1:]:
        result = c.numbers.extreme(opcode, result, c.plain(following, node))
    return result


def _whole(c: Statements, node: ast.Call, opcode: Opcode, *arguments: Any) -> Any:
    _one(c, node, arguments)
    x = c.plain(arguments[0], node)
    if not c.numbers.dtype(x).is_float:
        return x
    value = c.numbers.value(x)
    return Number(c.b.emit(opcode, value.dtype, value).to(dtypes.i32))


def _power(c: Statements, node: ast.Call, opcode: Opcode, *arguments: Any) -> Any:
    _one(c, node, arguments, 2)
    return c.operate(ast.Pow, *arguments, node)


_FAMILIES: dict[str, Callable[..., Any]] = {
    "float": _float,
    "number": _number,
    "fold": _fold,
    "whole": _whole,
    "power": _power,
}


# Words of the language, and Python's own that mean something when compiling.


def _grid(word: str) -> Callable[..., Any]:
    def handler(c: Statements, node: ast.Call, *arguments: Any) -> Any:
        numbers = c.grid.numbers(word)
        if numbers is None:
            raise c.refuse(node, f"hg.{word}() needs a kernel with workgroups: @hg.kernel(workgroup=64)")
        if not arguments:
            return numbers[0] if len(numbers) == 1 else several(tuple, numbers)
        axis = arguments[0]
        if not isinstance(axis, Literal) or not 0 <= axis.number < len(numbers):
            raise c.refuse(node, f"an axis must be a number below {len(numbers)}, got {spelled(axis)}")
        return numbers[int(axis.number)]

    return handler


def _static(c: Statements, node: ast.Call, *arguments: Any) -> Any:
    _one(c, node, arguments)
    return arguments[0]


def _known(function: Callable[..., Any]) -> Callable[..., Any]:
    """One of Python's functions on what is known when compiling."""

    def handler(c: Statements, node: ast.Call, *arguments: Any) -> Any:
        given = [known(c, x, node) for x in arguments]
        try:
            result = function(*given)
            shown = tuple(result) if isinstance(result, (enumerate, zip, reversed)) else result
        except (TypeError, ValueError) as error:
            raise c.refuse(node, str(error)) from None
        return c.wrapped(shown, node)

    return handler


def known(c: Statements, value: Any, node: ast.AST) -> Any:
    """A value of the kernel as Python's, which it must be when compiling."""
    if isinstance(value, Literal):
        return value.number
    if isinstance(value, Static):
        return value.value
    if isinstance(value, Several):
        return tuple(known(c, x, node) for x in value.items)
    raise c.refuse(node, f"it must be known when the kernel is compiled, got {spelled(value)}")


def _length(c: Statements, node: ast.Call, *arguments: Any) -> Any:
    _one(c, node, arguments)
    if isinstance(arguments[0], Array) and arguments[0].shape:
        return arguments[0].shape[0]
    return Literal(len(c.items(arguments[0], node)))


def _sum(c: Statements, node: ast.Call, *arguments: Any) -> Any:
    _one(c, node, arguments)
    total: Any = Literal(0)
    for x in c.items(arguments[0], node):
        total = c.operate(ast.Add, total, x, node)
    return total


def _where(c: Statements, node: ast.Call, *arguments: Any) -> Any:
    _one(c, node, arguments, 3)
    condition = c.numbers.truth(c.plain(arguments[0], node))
    if isinstance(condition, Literal):
        return arguments[1] if condition.number else arguments[2]
    return c.select(condition.value, arguments[1], arguments[2], node)


HANDLERS: list[tuple[Any, Callable[..., Any]]] = [
    (language.index, _grid("index")),
    (language.grid_size, _grid("grid_size")),
    (language.thread_index, _grid("thread_index")),
    (language.workgroup_index, _grid("workgroup_index")),
    (language.static, _static),
    *memory.HANDLERS,
    (len, _length),
    (sum, _sum),
    (range, _known(range)),
    (enumerate, _known(enumerate)),
    (zip, _known(zip)),
    (reversed, _known(reversed)),
]


@cache
def _table() -> dict[int, Callable[..., Any]]:
    """By the id of each function."""
    table = {id(function): handler for function, handler in HANDLERS}
    for where in functions.CHOICES:
        table[id(where)] = _where
    return table
