"""Loops of a kernel: counted ones, and those that are written out round by round."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from hologram.atlas.builder import Region, Value
from hologram.atlas.functions import select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen
from hologram.kernels.exits import BREAK, CONTINUE, NONE, RETURN, assigned, exits
from hologram.kernels.expressions import Expressions
from hologram.kernels.scope import EXIT, RESULT
from hologram.kernels.values import (
    Array,
    Literal,
    Number,
    Several,
    Static,
    Unset,
    leaves,
    rebuilt,
    spelled,
)

_TRIES = 6  # a variable that begins as a literal has its dtype from what is computed with it
MOST_ROUNDS = 4096  # of a loop that is written out


@frozen(eq=False)
class Bounds:
    """A range: where it begins, where it ends before, and the step, all numbers."""

    start: Number | Literal
    stop: Number | Literal
    step: int


def _counter(dtype: DType) -> DType:
    """What a loop counts in: languages do not compute in less than words."""
    return dtypes.i32 if dtype.bits < 32 else dtype


class Loops(Expressions):
    """Writes loops."""

    depth = 0  # loops around what is written

    def block(self, statements: Sequence[ast.stmt]) -> None:
        raise NotImplementedError  # of Statements

    def bind(self, target: ast.expr, value: Any) -> None:
        raise NotImplementedError

    def for_(self, node: ast.For) -> None:
        """A loop over a range, or over what is known when compiling."""
        if node.orelse:
            raise self.refuse(node.orelse[0], "`else` of a loop has no meaning in a kernel")
        bounds = self.range(node.iter)
        if bounds is None:
            self.written_out(node, self.known_items(node.iter))
        else:
            self.counted(node, bounds)

    def range(self, node: ast.expr) -> Bounds | None:
        """The bounds of `range(...)`; None of anything else."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return None
        called = self.expression(node.func)
        if not isinstance(called, Static) or called.value is not range:
            return None
        if node.keywords or not 1 <= len(node.args) <= 3:
            raise self.refuse(node, "range takes a stop, a start and a stop, or these and a step")
        given = []
        for argument in node.args:
            n = self.number(argument, "an integer")
            if not self.numbers.dtype(n).is_integer:
                raise self.refuse(argument, f"range takes integers, got {spelled(n)}")
            given.append(n)
        start, stop = (Literal(0), given[0]) if len(given) == 1 else given[:2]
        step = given[2] if len(given) == 3 else Literal(1)
        if not isinstance(step, Literal) or not isinstance(step.number, int) or step.number == 0:
            raise self.refuse(
                node.args[2], f"a step must be known when compiling and not be 0, got {spelled(step)}"
            )
        return Bounds(start, stop, step.number)

    # Written out.

    def known_items(self, node: ast.expr) -> Sequence[Any]:
        """What a loop that is written out goes through."""
        value = self.expression(node)
        if isinstance(value, Several):
            return value.items
        if isinstance(value, Static) and isinstance(value.value, (range, tuple, enumerate, zip, reversed)):
            return [self.wrapped(x, node) for x in value.value]
        raise self.refuse(
            node, f"a loop goes over range(...), a tuple or hg.static(...), got {spelled(value)}"
        )

    def written_out(self, node: ast.For, items: Sequence[Any]) -> None:
        """Every round as statements of its own."""
        if len(items) > MOST_ROUNDS:
            raise self.refuse(
                node.iter, f"a loop is written out for {MOST_ROUNDS} rounds at most, got {len(items)}"
            )
        self.depth += 1
        self._round(node, [*items])
        self.depth -= 1
        state = self.env[EXIT]
        self.env[EXIT] = self._behind(state)

    def _round(self, node: ast.For, items: list[Any]) -> None:
        while items:
            self.bind(node.target, items.pop(0))
            self.block(node.body)
            state = self.env[EXIT]
            if isinstance(state, Literal):
                if state.number > CONTINUE:
                    return
                self.env[EXIT] = Literal(NONE)
                continue
            on = self.numbers.binary(ast.LtE, state, Literal(CONTINUE))
            assert isinstance(on, Number)

            def further() -> None:
                self.env[EXIT] = Literal(NONE)
                self._round(node, items)

            return self.branch(on.value, further, lambda: None, node)

    def _behind(self, state: Number | Literal) -> Number | Literal:
        """The state behind a loop: only a return leads further."""
        if isinstance(state, Literal):
            return Literal(NONE) if state.number <= BREAK else state
        returns = self.numbers.binary(ast.Gt, state, Literal(BREAK))
        assert isinstance(returns, Number)
        return self.numbers.selected(returns.value, state, Literal(NONE))

    # Counted.

    def counted(self, node: ast.For, bounds: Bounds) -> None:
        """A loop as an instruction."""
        if exits(node.body) - {CONTINUE}:
            return self.counted_until(node, bounds)
        start, stop, counting = self._counting(bounds)
        step = self.b.constant(abs(bounds.step), start.dtype)
        if abs(bounds.step) > 1 and start.dtype is not dtypes.index:
            start, stop, step, counting = self._rounds(start, stop, step, counting)

        def around(first: list[Value], region: Region, yields: list[Value]) -> tuple[Value, ...]:
            return self.b.counted((start, stop, step), first, region, yields)

        def body(region: Region) -> None:
            self.bind(node.target, counting(region.arguments[0]))
            self.block(node.body)
            self.env[EXIT] = Literal(NONE)

        self.carried(node, (start.dtype,), body, around)

    def _counting(self, bounds: Bounds) -> tuple[Value, Value, Callable[[Value], Number]]:
        """Where the instruction counts from and to, and the number that its counter stands for.

        Positions count where both bounds are surely not below 0. A range that goes down is one of rounds.
        """
        numbers, one = self.numbers, bounds
        if one.step > 0:
            if all(numbers.positive(x) and numbers.dtype(x) is dtypes.i32 for x in (one.start, one.stop)):
                return numbers.place(one.start), numbers.place(one.stop), numbers.counted
            dtype = _counter(numbers.common(one.start, one.stop))
            first, last = numbers.value(one.start, dtype), numbers.value(one.stop, dtype)
            positive = numbers.positive(one.start)
            return first, last, lambda counter: Number(counter, positive=positive)
        dtype = _counter(numbers.common(one.start, one.stop))
        if not dtype.is_signed:
            raise self.refuse(None, f"a range that goes down must be of signed integers, got {dtype}")
        first, last = numbers.value(one.start, dtype), numbers.value(one.stop, dtype)
        # It counts up through the mirrored numbers: -start, -start + step, ... below -stop.
        return -first, -last, lambda counter: Number(-counter)

    def _rounds(
        self, start: Value, stop: Value, step: Value, counting: Callable[[Value], Number]
    ) -> tuple[Value, Value, Value, Callable[[Value], Number]]:
        """The same loop over the numbers of its rounds: the counter would wrap, and go on, where `stop` is far out."""
        dtype = start.dtype.unsigned
        steps = (stop - start - 1).to(dtype) // step.to(dtype) + 1
        zero, one = (self.b.constant(n, dtype) for n in (0, 1))
        rounds = select(start < stop, steps, zero)
        return zero, rounds, one, lambda r: counting(start + r.to(start.dtype) * step)

    # With a condition.

    def while_(self, node: ast.While) -> None:
        """A loop that goes on while its condition holds."""
        if node.orelse:
            raise self.refuse(node.orelse[0], "`else` of a loop has no meaning in a kernel")

        condition = partial(self.condition, node.test)
        first = condition()
        if isinstance(first, Literal) and not first.number:
            return
        self._until(node, node.body, self.numbers.value(first), (), condition, lambda counters: None)

    def counted_until(self, node: ast.For, bounds: Bounds) -> None:
        """A loop over a range that something may end before."""
        start, stop, counting = self._counting(bounds)
        step = self.b.constant(abs(bounds.step), start.dtype)
        now: list[Value] = []

        def bind(counters: Sequence[Value]) -> None:
            now[:] = counters
            self.bind(node.target, counting(counters[0]))

        def more() -> Number:
            # The distance, as unsigned, is right even where the next number would wrap.
            far = stop - now[0]
            unsigned = far.dtype.unsigned if far.dtype.is_integer else far.dtype
            return Number(far.to(unsigned) > step.to(unsigned))

        following = lambda: (now[0] + step,)  # noqa: E731
        self._until(node, node.body, start < stop, (start,), more, bind, following)

    def _until(
        self,
        node: ast.stmt,
        statements: Sequence[ast.stmt],
        go: Value,
        counters: tuple[Value, ...],
        condition: Callable[[], Number | Literal],
        begin: Callable[[Sequence[Value]], None],
        following: Callable[[], tuple[Value, ...]] = tuple,
    ) -> None:
        """Rounds while a condition holds and nothing leaves; counters are handed on beside the variables."""
        returns = RETURN in exits(statements)
        on: list[Value] = []

        def body(region: Region) -> None:
            begin(region.arguments[: len(counters)])
            self.env[EXIT] = Literal(NONE)
            self.block(statements)
            state = self.env[EXIT]
            again: Number | Literal
            if isinstance(state, Literal):
                again = condition() if state.number <= CONTINUE else Literal(False)
            else:
                stays = self.numbers.binary(ast.LtE, state, Literal(CONTINUE))
                assert isinstance(stays, Number)
                again = self.both(stays.value, condition, node)
            on[:] = [self.numbers.value(again), *following()]
            self.env[EXIT] = self._behind(state)

        def around(first: list[Value], region: Region, yields: list[Value]) -> tuple[Value, ...]:
            return self.b.repeated(go, [*counters, *first], region, [*on, *yields])

        dtypes_ = [c.dtype for c in counters]
        self.carried(node, dtypes_, body, around, (EXIT, RESULT) if returns else ())

    def both(
        self, so_far: Value, condition: Callable[[], Number | Literal], node: ast.AST
    ) -> Number | Literal:
        """`so_far and condition()`; the condition is asked only then, for it may read what is no more."""
        return self.numbers.truth(self.either(so_far, condition, lambda: Literal(False), node))

    # What rounds hand on.

    def carried(
        self,
        node: ast.stmt,
        counters: Sequence[DType],
        body: Callable[[Region], None],
        around: Callable[[list[Value], Region, list[Value]], tuple[Value, ...]],
        more: Sequence[str] = (),
    ) -> None:
        """Writes a loop: `body` a round in a region whose first arguments are counters, `around` the instruction.

        Variables that rounds assign are carried from one to the next, that of a `for` and `more` as well. Those that
        are literals before it have their dtype from the first try of a round.
        """
        before = self.env
        changed = assigned([node])
        names = [
            n for n in (*changed, *more) if not isinstance(before.get(n, Unset("")), (Unset, Array, Static))
        ]
        types = {name: self.types(before[name]) for name in names}
        for _ in range(_TRIES):
            flat = [t for name in names for t in types[name]]
            region = self.b.region((*counters, *flat))
            entering = iter([Number(v) for v in region.arguments[len(counters) :]])
            self.env = dict(before)
            for name in names:
                self.env[name] = rebuilt(before[name], entering)
            self.depth += 1
            with self.b.inside(region):
                body(region)
            self.depth -= 1
            after, self.env = self.env, before
            if RESULT in more and RESULT not in before and self._returned(after):
                before = {**before, RESULT: self._returned(after)}
                names.append(RESULT)
                types[RESULT] = self.types(after[RESULT])
                continue
            found = {name: self._after(name, before[name], after[name], types[name], node) for name in names}
            if found == types:
                break
            types = found
        else:
            raise self.refuse(
                node, "the dtypes of what this loop hands on do not settle: give them annotations"
            )
        self._unchanged(before, after, changed, node)
        with self.at(node):
            first = [v for name in names for v in self.flat(before[name], node, types[name])]
            with self.b.inside(region):
                yields = [v for name in names for v in self.flat(after[name], node, types[name])]
            results = iter([Number(v) for v in around(first, region, yields)[-len(first) :]] if first else [])
            if not first:
                around(first, region, yields)
        self.env = dict(before)
        for name in names:
            self.env[name] = rebuilt(before[name], results)
        for name in changed:
            if name not in before:
                line = self.source.line(node)
                self.env[name] = Unset(f"{name} may be unset here: the loop of line {line} may have no round")

    def _returned(self, after: Mapping[str, Any]) -> Any:
        """A value of the form of what a round returns, for the rounds before; None where none returns one."""
        found = after.get(RESULT)
        if found is None or isinstance(found, (Static, Unset)):
            return None
        return rebuilt(found, iter([Literal(self.numbers.dtype(x).python(0)) for x in leaves(found)]))

    def _after(self, name: str, before: Any, after: Any, types: list[DType], node: ast.AST) -> list[DType]:
        """The dtypes that a variable needs to be carried in, after what a round made of it."""
        olds, news = list(leaves(before)), list(leaves(after))
        if isinstance(after, Unset):
            raise self.refuse(node, after.why)
        if len(olds) != len(news) or not all(isinstance(x, (Number, Literal)) for x in news):
            raise self.refuse(
                node, f"{name} is {spelled(before)} before the loop and {spelled(after)} after a round"
            )
        found = []
        for old, new, now in zip(olds, news, types, strict=True):
            if isinstance(new, Literal):
                self.common_type(name, Number(self.b.constant(now.python(0), now)), new, node)
                found.append(now)
            elif new.dtype is now or (isinstance(old, Literal) and self._takes(new.dtype, old.number)):
                found.append(new.dtype)
            else:
                raise self.refuse(
                    node,
                    f"{name} is {now} before the loop and {new.dtype} after a round: convert one of them",
                )
        return found

    @staticmethod
    def _takes(dtype: DType, number: bool | int | float) -> bool:
        if isinstance(number, bool):
            return dtype.kind == "bool"
        return dtype.is_float or (dtype.is_integer and isinstance(number, int))

    def _unchanged(
        self, before: Mapping[str, Any], after: Mapping[str, Any], changed: Mapping[str, None], node: ast.AST
    ) -> None:
        """Arrays and functions must be the same in each round."""
        for name in changed:
            old, new = before.get(name), after.get(name)
            if isinstance(old, (Array, Static)) and old is not new:
                raise self.refuse(node, f"{name} is {spelled(old)} before the loop, and must stay that")
