"""Statements of a kernel: assignments, branches, loops, and ways out of them."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hologram.atlas.builder import Value
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.kernels import memory
from hologram.kernels.bounds import of_assertion
from hologram.kernels.exits import JUMPS, NONE, RETURN, assigned, ends, exits, returns
from hologram.kernels.expressions import Expressions
from hologram.kernels.grid import Grid
from hologram.kernels.loops import Loops
from hologram.kernels.scope import EXIT, RESULT, Located
from hologram.kernels.source import Source, names_of, read, words
from hologram.kernels.values import Array, Literal, Number, Several, Static, spelled


class Statements(Loops, Expressions):
    """Writes statements in order."""

    def __init__(self, builder: Located, source: Source, grid: Grid) -> None:
        super().__init__(builder, source)
        self.grid = grid
        self.env[EXIT] = Literal(NONE)
        self.stack: list[types.FunctionType] = []
        self.sources: dict[types.FunctionType, Source] = {}  # of functions that are called
        self.path: tuple[int, ...] = ()  # the calls around what is written
        self.arrays: dict[Any, Array] = {}  # made by hg.local and hg.shared, by their calls
        self.local_bytes = 0  # of those of hg.local
        self.handed: set[DType] = set()  # what subgroups hand on, which may take shared memory

    # Order.

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Statements in order, as far as they are reached."""
        for k, statement in enumerate(statements):
            rest = [*statements[k + 1 :]]
            if isinstance(statement, ast.If) and rest and exits([statement]):
                # What follows belongs to the side that reaches it: no flag is needed.
                sides = (ends(statement.body), ends(statement.orelse))
                if sides == (True, False):
                    return self.if_(statement, statement.body, [*statement.orelse, *rest])
                if sides == (False, True):
                    return self.if_(statement, [*statement.body, *rest], statement.orelse)
            self.statement(statement)
            state = self.env[EXIT]
            if isinstance(state, Literal):
                if state.number != NONE:
                    return
            elif rest:
                on = self.numbers.binary(ast.Eq, state, Literal(NONE))
                assert isinstance(on, Number)
                return self.branch(on.value, lambda rest=rest: self.block(rest), lambda: None, statement)

    def statement(self, node: ast.stmt) -> None:
        handler = STATEMENTS.get(type(node))
        if handler is None:
            raise self.refuse(node, f"{words(node)} has no meaning in a kernel")
        with self.at(node):
            handler(self, node)

    # Assignments.

    def assign(self, node: ast.Assign) -> None:
        value = self.expression(node.value)
        for target in node.targets:
            self.bind(target, value)

    def annotated(self, node: ast.AnnAssign) -> None:
        """`x: hg.f64 = 0.0` gives a number its dtype."""
        if node.value is None:
            raise self.refuse(node, "a variable with an annotation must be assigned")
        annotation = self.expression(node.annotation)
        dtype = self.dtype_of(annotation.value) if isinstance(annotation, Static) else None
        if dtype is None:
            raise self.refuse(
                node.annotation, f"a variable's annotation must be a dtype, got {spelled(annotation)}"
            )
        self.bind(node.target, Number(self.numbers.value(self.number(node.value), dtype)))

    def augmented(self, node: ast.AugAssign) -> None:
        """`x += y`, whose target is read once."""
        kind, target = type(node.op), node.target
        if isinstance(target, ast.Subscript):
            owner = self.expression(target.value)
            if isinstance(owner, Array):
                place = self.position(owner, target)
                result = self.operate(
                    kind, Number(self.load(owner, place)), self.expression(node.value), node
                )
                return self.put(owner, place, result, node)
        before = self.expression(_read(target))
        self.bind(target, self.operate(kind, before, self.expression(node.value), node))

    def bind(self, target: ast.expr, value: Any) -> None:
        """Gives a target its value."""
        if isinstance(target, ast.Name):
            self.env[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = self.items(value, target)
            if len(items) != len(target.elts):
                raise self.refuse(
                    target, f"{len(target.elts)} names for {len(items)} values, {spelled(value)}"
                )
            for one, item in zip(target.elts, items, strict=True):
                self.bind(one, item)
        elif isinstance(
            target, ast.Subscript
        ):  # of a value nobody else sees: it is made anew with the new part
            owner = self.expression(target.value)
            if isinstance(owner, Array):
                return self.put(owner, self.position(owner, target), value, target)
            if not isinstance(owner, Several) or owner.kind is tuple:
                raise self.refuse(target, f"{spelled(owner)} takes no new elements")
            self.bind(target.value, self.with_part(owner, self.expression(target.slice), value, target))
        elif isinstance(target, ast.Attribute):
            owner = self.expression(target.value)
            if not isinstance(owner, Several) or target.attr not in owner.names:
                raise self.refuse(target, f"{spelled(owner)} has no {target.attr} to assign")
            items = [
                value if name == target.attr else x for name, x in zip(owner.names, owner.items, strict=True)
            ]
            self.bind(target.value, owner.remade(items))
        else:
            raise self.refuse(target, f"{words(target)} cannot be assigned in a kernel")

    def put(self, array: Array, place: Value, value: Any, node: ast.AST) -> None:
        """Stores an element; a number takes the array's dtype, but no float becomes an integer by itself."""
        with self.at(node):
            stored = self.numbers.value(self.plain(value, node), array.dtype)
            self.grid.effect(lambda: memory.store(self.b, array, place, stored))

    # Ways.

    def if_statement(self, node: ast.If) -> None:
        self.if_(node, node.body, node.orelse)

    def if_(self, node: ast.If, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        """One of two sides; where the condition is known, that side alone."""
        condition = self.condition(node.test)
        if isinstance(condition, Literal):
            return self.block(body if condition.number else orelse)
        self.branch(condition.value, lambda: self.block(body), lambda: self.block(orelse), node)

    def jump(self, node: ast.stmt) -> None:
        self.env[EXIT] = Literal(JUMPS[type(node)])

    def return_(self, node: ast.Return) -> None:
        if self.stack and len(self.stack) > 1:
            self.env[RESULT] = Static(None) if node.value is None else self.expression(node.value)
        elif node.value is not None and not (
            isinstance(node.value, ast.Constant) and node.value.value is None
        ):
            raise self.refuse(node, "a kernel returns nothing: it writes into arrays")
        self.env[EXIT] = Literal(RETURN)

    def expression_statement(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.expression(node.value)

    def assert_(self, node: ast.Assert) -> None:
        """It is checked where indices are, and by the Python form."""
        if self.checks is None:
            return
        holds = self.condition(node.test)
        value = self.b.constant(holds.number, dtypes.bool_) if isinstance(holds, Literal) else holds.value
        self.checks.held(value, (), of_assertion(self.source, node))

    def nothing(self, node: ast.stmt) -> None:
        """Nothing is computed."""

    # Functions.

    def inline(self, function: types.FunctionType, values: Mapping[str, Any], node: ast.AST) -> Any:
        """The result of a function's body, written here; `values` are its arguments by name."""
        if function in self.stack:
            names = " calls ".join(f.__name__ for f in (*self.stack[1:], function))
            raise self.refuse(node, f"a kernel has no recursion: {names}")
        source = self.sources.get(function)
        if source is None:  # what is around it is this kernel's from now on, and another's when that is made
            source = self.sources[function] = replace(read(function), names=names_of(function))
        outer = self.source, self.env, self.local_names
        self.path = (*self.path, id(node))
        self.enter(source, values, function)
        self.path = self.path[:-1]
        result = self.env.get(RESULT, Static(None))
        if not isinstance(result, Static) and not returns(source.tree.body):
            raise self.refuse(None, "every way through a function must return")
        self.source, self.env, self.local_names = outer
        return result

    def enter(self, source: Source, values: Mapping[str, Any], function: types.FunctionType) -> None:
        """Writes the body of a function."""
        self.source, self.env = source, {**values, EXIT: Literal(NONE)}
        self.local_names = frozenset(assigned(source.tree.body))
        self.stack.append(function)
        self.block(source.tree.body)
        self.stack.pop()

    def bound(self, function: types.FunctionType, node: ast.Call, values: Sequence[Any], named: Any) -> dict:
        """A call's arguments by the names of the function's parameters."""
        try:
            arguments = inspect.signature(function).bind(*values, **named)
        except TypeError as error:
            raise self.refuse(node, f"{function.__name__}: {error}") from None
        given = dict(arguments.arguments)
        for name, parameter in inspect.signature(function).parameters.items():
            if name not in given:
                given[name] = self.wrapped(parameter.default, node)
        return given


def _read(target: ast.expr) -> ast.expr:
    """The expression that reads what a target assigns."""
    read_ = ast.parse(ast.unparse(target), mode="eval").body
    for node in ast.walk(read_):
        ast.copy_location(node, target)
    return read_


STATEMENTS: dict[type[ast.AST], Callable[[Statements, Any], None]] = {
    ast.Assign: Statements.assign,
    ast.AnnAssign: Statements.annotated,
    ast.AugAssign: Statements.augmented,
    ast.If: Statements.if_statement,
    ast.For: Statements.for_,
    ast.While: Statements.while_,
    ast.Assert: Statements.assert_,
    ast.Continue: Statements.jump,
    ast.Break: Statements.jump,
    ast.Return: Statements.return_,
    ast.Expr: Statements.expression_statement,
    ast.Pass: Statements.nothing,
}
