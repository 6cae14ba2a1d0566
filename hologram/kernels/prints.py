"""HOLOGRAM_BOUNDS=1: what a kernel prints on a device.

Each print takes room behind what bounds.py keeps, and writes which print it is, its point, and its numbers as words of
32 bits; the host puts them in order and makes text of them.

A point's lines come in their order, and points in row-major order, as in the Python form.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hologram.atlas.builder import Value
from hologram.atlas.opcodes import Opcode
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen
from hologram.kernels.bounds import WORDS, Checks
from hologram.kernels.values import Literal, Number, Several, Static, spelled

ROOM = 1 << 16  # words for what is printed at a call
_CURSOR = WORDS  # where it is told how many of them are taken
FIRST = WORDS + 1
Compiler = Any  # Statements, which imports this
_STR = ord("s")  # how `print` writes what is no f-string
_CONVERSIONS: Mapping[int, Callable[[Any], Any]] = {_STR: str, ord("r"): repr, ord("a"): ascii}


@frozen(eq=False)
class Text:
    """A part of what is printed that is a number: its dtype, and how an f-string writes it."""

    dtype: DType
    spec: str = ""
    conversion: int = -1


@frozen(eq=False)
class Print:
    """A print: its pieces, strings and numbers, in order."""

    pieces: tuple[str | Text, ...]
    end: str
    words: int  # of one record


def printed(c: Compiler, checks: Checks, node: ast.Call) -> None:
    """Writes a `print`."""
    named = {k.arg: _constant(c, k) for k in node.keywords}
    if unknown := set(named) - {"sep", "end"}:
        raise c.refuse(
            node, f"print takes sep and end by name in a kernel, got {', '.join(map(str, unknown))}"
        )
    sep = " " if named.get("sep") is None else named["sep"]
    pieces: list[str | Text] = []
    values: list[Value] = []
    for k, argument in enumerate(node.args):
        pieces += [sep] if k else []
        for piece, value in _pieces(c, argument):
            pieces.append(piece)
            values += [] if value is None else _words(value)
    b, rank = c.b, checks.grid.rank
    size = 1 + rank + len(values)
    end = "\n" if named.get("end") is None else named["end"]
    checks.prints.append(Print(tuple(pieces), end, size))
    number = len(checks.prints)

    def write() -> None:
        room = b.constant(size, dtypes.i32)
        start = b.emit(Opcode.ATOMIC_ADD, dtypes.i32, checks.at(_CURSOR), room, attribute=checks.name)

        def record() -> None:
            first = start.to(dtypes.index) + FIRST
            checks.put(first, [b.constant(number, dtypes.i32), *checks.point(), *values])

        b.if_((start >= 0) & (start <= ROOM - size), record, lambda: None)

    checks.grid.effect(write)


def _constant(c: Compiler, keyword: ast.keyword) -> Any:
    value = c.expression(keyword.value)
    if not isinstance(value, Static) or not isinstance(value.value, (str, type(None))):
        raise c.refuse(keyword.value, f"{keyword.arg} must be a string, got {spelled(value)}")
    return value.value


def _pieces(c: Compiler, node: ast.expr) -> Iterator[tuple[str | Text, Value | None]]:
    """An argument's strings and numbers."""
    if not isinstance(node, ast.JoinedStr):
        yield from _shown(c, c.expression(node), node, conversion=_STR)
        return
    for part in node.values:
        if isinstance(part, ast.Constant):
            yield str(part.value), None
        elif isinstance(part, ast.FormattedValue):
            spec = part.format_spec
            text = ""
            if isinstance(spec, ast.JoinedStr):
                if not all(isinstance(x, ast.Constant) for x in spec.values):
                    raise c.refuse(part, "how a number is written must be known when compiling")
                text = "".join(str(x.value) for x in spec.values if isinstance(x, ast.Constant))
            yield from _shown(c, c.expression(part.value), part.value, text, part.conversion)


def _shown(
    c: Compiler, value: Any, node: ast.expr, spec: str = "", conversion: int = -1
) -> Iterator[tuple[str | Text, Value | None]]:
    if isinstance(value, Number):
        yield Text(value.dtype, spec, conversion), value.value
    elif isinstance(value, (Literal, Static)):
        plain = value.number if isinstance(value, Literal) else value.value
        yield format(_CONVERSIONS.get(conversion, _as_it_is)(plain), spec), None
    elif isinstance(value, Several):
        yield f"{'' if value.kind is tuple else value.kind.__name__}(", None
        for k, item in enumerate(value.items):
            yield ", " if k else "", None
            yield from _shown(c, item, node, conversion=_STR)
        yield ")", None
    else:
        raise c.refuse(node, f"print takes numbers and strings, got {spelled(value)}")


def _words(value: Value) -> list[Value]:
    """A number as words of 32 bits."""
    dtype = value.dtype
    if dtype.is_float and dtype.bits < 32:
        value = value.to(dtypes.f32)
    elif dtype.bits < 32:
        return [value.to(dtypes.i32)]
    if value.dtype.bits == 32:
        return [value if value.dtype is dtypes.i32 else value.bitcast(dtypes.i32)]
    whole = value if value.dtype is dtypes.u64 else value.bitcast(dtypes.u64)
    return [part.to(dtypes.u32).bitcast(dtypes.i32) for part in (whole & 0xFFFFFFFF, whole >> 32)]


def _number(dtype: DType, words: np.ndarray) -> Any:
    """The number that such words are of."""
    if dtype.is_float and dtype.bits < 32:
        return words.view(np.float32).astype(dtype.numpy)[0]
    if dtype.bits < 32:
        return words.astype(dtype.numpy)[0]
    return words.view(dtype.numpy)[0]


def lines(words: np.ndarray, prints: Sequence[Print], rank: int) -> str:
    """All that a call has printed."""
    taken = int(words[_CURSOR])
    records: list[tuple[tuple[int, ...], str]] = []
    at, end = FIRST, FIRST + min(taken, ROOM) if taken >= 0 else words.size
    while at < end:
        number = int(words[at])
        if not 0 < number <= len(prints):  # the first without room
            break
        one = prints[number - 1]
        point = tuple(words[at + 1 : at + 1 + rank].tolist())
        records.append((point, _line(one, words[at + 1 + rank : at + one.words])))
        at += one.words
    records.sort(key=lambda r: r[0])
    text = "".join(line for _, line in records)
    if not 0 <= taken <= ROOM:
        text += f"... and more: a call prints {ROOM} words at most\n"
    return text


def _as_it_is(x: Any) -> Any:
    return x


def _line(one: Print, words: np.ndarray) -> str:
    found: list[str] = []
    for piece in one.pieces:
        if isinstance(piece, str):
            found.append(piece)
            continue
        size = 2 if piece.dtype.bits == 64 else 1
        number = _number(piece.dtype, np.ascontiguousarray(words[:size]))
        words = words[size:]
        shown = _CONVERSIONS.get(piece.conversion, _as_it_is)(number)
        found.append(format(shown, piece.spec))
    return "".join(found) + one.end
