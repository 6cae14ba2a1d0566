"""Conditions of a kernel, and what is chosen by them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hologram.atlas.builder import Value
from hologram.foundation import dtypes
from hologram.kernels.bounds import Checks
from hologram.kernels.numbers import OPERATORS
from hologram.kernels.scope import Scope
from hologram.kernels.source import words
from hologram.kernels.values import Array, Literal, Number, Several, Static


class Logic(Scope):
    """Evaluates conditions."""

    checks: Checks | None = None  # of indices, where they are wanted

    def expression(self, node: ast.expr) -> Any:
        raise NotImplementedError  # of Expressions

    def number(self, node: ast.expr, what: str = "a number") -> Number | Literal:
        return self.plain(self.expression(node), node, what)

    def lazy(self, node: ast.expr) -> bool:
        """Whether an expression is computed only where it is asked for: it has effects, or an index is checked."""
        return has_calls(node) or (self.checks is not None and any(map(_checked, ast.walk(node))))

    def condition(self, node: ast.expr) -> Number | Literal:
        """Whether an expression is true: a bool. Of `and` and `or` no value is chosen, as nobody asks for it."""
        if not isinstance(node, ast.BoolOp):
            with self.at(node):
                return self.numbers.truth(self.number(node))
        decisive = isinstance(node.op, ast.Or)
        result: Number | Literal = Literal(not decisive)
        for operand in node.values:
            if isinstance(result, Literal):
                if result.number is decisive:
                    return result
                result = self.condition(operand)
            elif self.lazy(operand):
                asked = ~result.value if decisive else result.value
                sides = partial(self.condition, operand), partial(Literal, decisive)
                result = self.numbers.truth(self.either(asked, *sides, operand))
            else:
                result = self._joined(result, self.condition(operand), decisive)
        return result

    def _joined(self, a: Number, b: Number | Literal, decisive: bool) -> Number | Literal:
        if isinstance(b, Literal):
            return b if b.number is decisive else a
        return Number(a.value | b.value if decisive else a.value & b.value)

    def boolean(self, node: ast.BoolOp) -> Any:
        """`and`, `or`: Python's, whose value is the operand that decides."""
        decisive = isinstance(node.op, ast.Or)
        value = self.expression(node.values[0])
        for operand in node.values[1:]:
            truth = self.numbers.truth(self.plain(value, operand))
            if isinstance(truth, Literal):
                value = value if truth.number is decisive else self.expression(operand)
            else:
                value = self._decided(value, truth, operand, decisive)
        return value

    def _decided(self, first: Number, truth: Number, operand: ast.expr, decisive: bool) -> Any:
        """`first and operand`, or `first or operand`; what stands behind is computed in any case, if that is cheap."""
        if self.lazy(operand):
            ask = partial(self.expression, operand)
            one, other = ((lambda: first), ask) if decisive else (ask, (lambda: first))
            return self.either(truth.value, one, other, operand)
        second = self.expression(operand)
        if first is truth and self.numbers.dtype(self.plain(second, operand)) is dtypes.bool_:
            return self._joined(first, second, decisive)
        pair = (first, second) if decisive else (second, first)
        return self.select(truth.value, *pair, operand)

    def either(
        self, condition: Value, then: Callable[[], Any], orelse: Callable[[], Any], node: ast.AST
    ) -> Any:
        """The value of one of two sides, of which only one runs."""
        name = f"$value{id(node)}"

        def keep(side: Callable[[], Any]) -> Callable[[], None]:
            def kept() -> None:
                value = side()  # which may put other variables in the place of these
                self.env[name] = value

            return kept

        self.branch(condition, keep(then), keep(orelse), node)
        return self.env.pop(name)

    def compare(self, node: ast.Compare) -> Number | Literal:
        """One comparison, or a chain of them: all must hold."""
        return self._chain(self.expression(node.left), [*zip(node.ops, node.comparators, strict=True)], node)

    def _chain(
        self, left: Any, rest: Sequence[tuple[ast.cmpop, ast.expr]], node: ast.AST
    ) -> Number | Literal:
        (op, operand), *more = rest
        right = self.expression(operand)
        one = self._comparison(type(op), left, right, node)
        if not more or (isinstance(one, Literal) and not one.number):
            return one
        if isinstance(one, Literal):
            return self._chain(right, more, node)
        if self.lazy(more[0][1]):
            asked = partial(self._chain, right, more, node)
            return self.numbers.truth(self.either(one.value, asked, partial(Literal, False), node))
        return self._joined(one, self._chain(right, more, node), decisive=False)

    def _comparison(self, kind: type[ast.AST], a: Any, b: Any, node: ast.AST) -> Any:
        if isinstance(a, (Static, Array)) or isinstance(b, (Static, Array)):
            x, y = (v.value if isinstance(v, Static) else v for v in (a, b))
            same = x is y or (isinstance(a, Static) and isinstance(b, Static) and x == y)
            answers = {ast.Is: same, ast.Eq: same, ast.IsNot: not same, ast.NotEq: not same}
            if kind in answers:
                return Literal(answers[kind])
        if kind not in OPERATORS:
            raise self.refuse(node, f"{words(node, kind)} has no meaning in a kernel")
        return self.numbers.binary(kind, self.plain(a, node), self.plain(b, node))

    def conditional(self, node: ast.IfExp) -> Any:
        """`a if c else b`: without a branch where both sides are cheap and have no effects."""
        condition = self.condition(node.test)
        if isinstance(condition, Literal):
            return self.expression(node.body if condition.number else node.orelse)
        if self.lazy(node.body) or self.lazy(node.orelse):
            then, orelse = (lambda: self.expression(node.body)), (lambda: self.expression(node.orelse))
            return self.either(condition.value, then, orelse, node)
        return self.select(condition.value, self.expression(node.body), self.expression(node.orelse), node)

    def select(self, condition: Value, a: Any, b: Any, node: ast.AST) -> Any:
        """One of two values without a branch."""
        if isinstance(a, Several) and isinstance(b, Several) and len(a.items) == len(b.items):
            pairs = zip(a.items, b.items, strict=True)
            return a.remade([self.select(condition, x, y, node) for x, y in pairs])
        with self.at(node):
            return self.numbers.selected(condition, self.plain(a, node), self.plain(b, node))


def _checked(node: ast.AST) -> bool:
    """Whether a check stands at a node."""
    divides = isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Mod))
    return divides or isinstance(node, ast.Subscript)


def has_calls(node: ast.expr) -> bool:
    """Whether an expression may have effects, or cost much."""
    return any(isinstance(x, ast.Call) for x in ast.walk(node))
