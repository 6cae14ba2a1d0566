"""Subgroups: neighbours in a workgroup that hand numbers to one another without memory of their own.

A kernel says how many threads they have, so it means the same everywhere; a device whose own subgroups fit takes these.
Sums are made in one order, by halves, so that they are the same to the bit.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.atlas.opcodes import Opcode
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import KernelError
from hologram.foundation.frozen import frozen
from hologram.kernels.language import in_a_workgroup
from hologram.kernels.values import Literal, Number, spelled
from hologram.kernels.vectors import Parts

WIDTH = 32
O = Opcode
Compiler = Any  # Statements, which imports this


# As Python.


def _place(word: str, width: int) -> tuple[Any, int]:
    """The workgroup's meeting, and the thread's number in it."""
    here = in_a_workgroup(word)
    threads = here.meeting.threads
    if width < 1 or width & (width - 1) or threads % width:
        raise KernelError(f"hg.{word}: {_needs(threads, width)}")
    return here.meeting, here.meeting.number(here.thread)


def _needs(threads: int, width: Any) -> str:
    return f"the width must be a power of two that divides the workgroup of {threads} threads, got {width}"


def subgroup_index(width: int = WIDTH) -> Any:
    """Which thread of its subgroup this is, from 0 on."""
    return _place("subgroup_index", width)[1] % width


def subgroup_shuffle(x: Any, source: Any, width: int = WIDTH) -> Any:
    """What the thread of the subgroup whose number is `source` has, modulo `width`; 0 where it is not in the grid.

    Args:
        x: a number, a vector or a matrix, of which all threads of the workgroup have one here.
        source: an integer; each thread may ask for another.
        width: how many neighbouring threads are a subgroup; a power of two that divides the workgroup.
    """
    if isinstance(x, Parts):
        return type(x)(*[subgroup_shuffle(part, source, width) for part in x])
    meeting, number = _place("subgroup_shuffle", width)
    found = meeting.handed(number, x).get(number - number % width + int(source) % width)
    return type(x)(0) if found is None else found


def subgroup_broadcast(x: Any, source: Any = 0, width: int = WIDTH) -> Any:
    """As `subgroup_shuffle`, where all ask for one thread."""
    return subgroup_shuffle(x, source, width)


def _fold(name: str, combine: Callable[[Any, Any], Any], about: str) -> Callable[..., Any]:
    word = f"subgroup_{name}"

    def fold(x: Any, width: int = WIDTH) -> Any:
        if isinstance(x, Parts):
            return type(x)(*[fold(part, width) for part in x])
        meeting, number = _place(word, width)
        handed = meeting.handed(number, x)
        first = number - number % width
        values, distance = [handed.get(first + k) for k in range(width)], width
        with np.errstate(all="ignore"):
            while distance > 1:
                distance //= 2
                pairs = zip(values[:distance], values[distance:], strict=False)
                values = [b if a is None else a if b is None else combine(a, b) for a, b in pairs]
        return values[0]

    fold.__name__ = fold.__qualname__ = word
    fold.__doc__ = f"{about} the subgroup's threads, in each of them; `width` as of `subgroup_shuffle`."
    return fold


def _least(a: Any, b: Any) -> Any:
    return a if a != a or a < b else b


def _most(a: Any, b: Any) -> Any:
    return a if a != a or a > b else b


subgroup_sum = _fold("sum", operator.add, "The sum over")
subgroup_min = _fold("min", _least, "The smallest number of (NaN if any is)")
subgroup_max = _fold("max", _most, "The largest number of (NaN if any is)")
subgroup_any = _fold("any", lambda a, b: bool(a) or bool(b), "Whether a condition holds for any of")
subgroup_all = _fold("all", lambda a, b: bool(a) and bool(b), "Whether a condition holds for all of")


# In a program.


@frozen(eq=False)
class _Fold:
    """How a fold combines two numbers, and what changes none; of conditions as 0 and 1."""

    opcode: Opcode
    neutral: Callable[[DType], Any]
    condition: bool = False


def _lowest(dtype: DType) -> Any:
    return -float("inf") if dtype.is_float else int(dtype.lowest)


def _highest(dtype: DType) -> Any:
    return float("inf") if dtype.is_float else int(dtype.highest)


_FOLDS: dict[Callable[..., Any], _Fold] = {
    subgroup_sum: _Fold(O.ADD, lambda dtype: dtype.python(0)),
    subgroup_min: _Fold(O.MIN, _highest),
    subgroup_max: _Fold(O.MAX, _lowest),
    subgroup_any: _Fold(O.MAX, lambda dtype: 0, condition=True),
    subgroup_all: _Fold(O.MIN, lambda dtype: 1, condition=True),
}


class _Subgroup:
    """The subgroups of a kernel under construction."""

    def __init__(self, c: Compiler, node: ast.Call, width: Any) -> None:
        self.c, self.b, self.node = c, c.b, node
        if c.grid.workgroup is None:
            raise c.refuse(node, "subgroups need a kernel with workgroups: @hg.kernel(workgroup=64)")
        threads, number = self.b.workgroup, getattr(width, "number", None)
        if type(number) is not int or number < 1 or number & (number - 1) or threads % number:
            raise c.refuse(node, _needs(threads, spelled(width)))
        self.width = number
        self.thread = self.b.position(O.THREAD)

    def index(self) -> Number:
        return self.c.numbers.counted(self.thread % self.width)

    def handed(self, value: Value, source: Value) -> tuple[Value, Value]:
        """What a thread of the subgroup has, and whether it is in the grid; narrow numbers go as wide ones."""
        b, dtype = self.b, value.dtype
        wide = (
            dtypes.i32
            if dtype.kind in ("int", "bool")
            else dtypes.u32
            if dtype.kind == "uint"
            else dtypes.f32
        )
        sent = value.to(wide) if dtype.bits < 32 or dtype.kind == "bool" else value
        if sent.dtype not in self.c.handed:
            self.c.handed.add(sent.dtype)
            b.sized.append((b.workgroup * sent.dtype.itemsize, self.c.source, self.node))
        found = b.emit(O.SHUFFLE, sent.dtype, sent, source, attribute=self.width).to(dtype)
        if (
            self.c.grid.rank > 1
        ):  # all threads run, and those outside of the grid hand on what changes nothing
            return found, b.constant(True, dtypes.bool_)
        first = b.position(O.WORKGROUP) * b.workgroup + self.thread - self.thread % self.width
        return found, first + (source % self.width).to(dtypes.index) < b.extent(0)

    def offered(self, value: Value, neutral: Any) -> Value:
        inside = self.c.grid.inside
        return value if inside is None else select(inside, value, self.b.constant(neutral, value.dtype))

    def shuffled(self, value: Value, source: Value) -> Value:
        zero = value.dtype.python(0)
        found, there = self.handed(self.offered(value, zero), source)
        return select(there, found, self.b.constant(zero, value.dtype))

    def folded(self, value: Value, how: _Fold) -> Value:
        """By halves: the first thread's is the whole in the end, also where the last ones are missing."""
        b, distance = self.b, self.width // 2
        value = self.offered(value, how.neutral(value.dtype))
        own = (self.thread % self.width).to(dtypes.u32)
        while distance:
            other, there = self.handed(value, own + b.constant(distance, dtypes.u32))
            value = select(there, b.emit(how.opcode, value.dtype, value, other), value)
            distance //= 2
        return self.handed(value, b.constant(0, dtypes.u32))[0]


def _arguments(c: Compiler, node: ast.Call, function: Callable[..., Any]) -> dict[str, Any]:
    positional = c.tuple_(ast.copy_location(ast.Tuple(node.args, ast.Load()), node)).items
    named = {k.arg: c.expression(k.value) for k in node.keywords if k.arg is not None}
    return c.bound(function, node, positional, named)


def _index(c: Compiler, node: ast.Call) -> Number:
    return _Subgroup(c, node, _arguments(c, node, subgroup_index)["width"]).index()


def _shuffle(function: Callable[..., Any]) -> Callable[..., Any]:
    def handler(c: Compiler, node: ast.Call) -> Any:
        given = _arguments(c, node, function)
        subgroup = _Subgroup(c, node, given["width"])
        number = c.plain(given["source"], node, "an integer")
        if not c.numbers.dtype(number).is_integer:
            raise c.refuse(node, f"a thread is told by an integer, got {spelled(number)}")
        source = c.numbers.converted(number, dtypes.u32).value
        return c.by_parts(node, given["x"], lambda x: Number(subgroup.shuffled(c.numbers.value(x), source)))

    return handler


def _folding(function: Callable[..., Any], how: _Fold) -> Callable[..., Any]:
    def handler(c: Compiler, node: ast.Call) -> Any:
        given = _arguments(c, node, function)
        subgroup = _Subgroup(c, node, given["width"])

        def one(x: Number | Literal) -> Number:
            if how.condition:
                truth = c.numbers.value(c.numbers.truth(x)).to(dtypes.i32)
                return Number(subgroup.folded(truth, how).to(dtypes.bool_))
            value = c.numbers.value(x)
            if value.dtype.kind == "bool":
                raise c.refuse(node, f"hg.{function.__name__} takes numbers, got bool")
            return Number(subgroup.folded(value, how))

        return c.by_parts(node, given["x"], one)

    return handler


WORDS = (subgroup_index, subgroup_shuffle, subgroup_broadcast, *_FOLDS)
# Handlers that read their call's arguments themselves, for these have names.
HANDLERS: dict[int, Callable[[Compiler, ast.Call], Any]] = {
    id(subgroup_index): _index,
    id(subgroup_shuffle): _shuffle(subgroup_shuffle),
    id(subgroup_broadcast): _shuffle(subgroup_broadcast),
    **{id(function): _folding(function, how) for function, how in _FOLDS.items()},
}
