"""What the compiler of a kernel knows while it walks: the program so far, the variables, and whose source it reads."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.program import Instruction
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import KernelError, ProgramError
from hologram.kernels.numbers import Numbers, Refused
from hologram.kernels.source import Source
from hologram.kernels.values import (
    Array,
    Literal,
    Number,
    Several,
    Static,
    Unset,
    default_dtype,
    leaves,
    rebuilt,
    spelled,
)

EXIT, RESULT = "$exit", "$return"  # variables of the compiler's own
_MISSING: Any = Unset("")


class Located(Builder):
    """A Builder that notes which line of Python each instruction comes from."""

    def __init__(self, name: str, *, rank: int, workgroup: int | None = None) -> None:
        super().__init__(name, rank=rank, workgroup=workgroup)
        self.at: tuple[Source, ast.AST] | None = None
        self.origins: dict[int, tuple[Source, ast.AST]] = {}  # by the id of the instruction
        self.kept: list[Instruction] = []  # so that ids stay theirs
        self.sized: list[
            tuple[int, Source, ast.AST]
        ] = []  # bytes of shared arrays, and where they are asked for

    def _append(self, *arguments: Any, **named: Any) -> tuple[Value, ...]:
        results = super()._append(*arguments, **named)
        instruction = self._scopes[-1][-1]
        if self.at is not None:
            self.origins[id(instruction)] = self.at
            self.kept.append(instruction)
        return results


class Scope:
    """Variables, errors, and what becomes of variables where ways meet."""

    def __init__(self, builder: Located, source: Source) -> None:
        self.b = builder
        self.numbers = Numbers(builder)
        self.source = source
        self.env: dict[str, Any] = {}

    # Errors.

    def refuse(self, node: ast.AST | None, what: str) -> KernelError:
        return self.source.refuse(node, what)

    def at(self, node: ast.AST) -> At:
        """What is written inside comes from a node, and so do its errors."""
        return At(self, node)

    # Values as Atlas has them.

    def flat(self, value: Any, node: ast.AST, types: Iterable[DType] | None = None) -> list[Value]:
        """The numbers in a value, in order; of given dtypes, where they are known."""
        wanted = iter(types) if types is not None else None
        found = []
        for leaf in leaves(value):
            if not isinstance(leaf, (Number, Literal)):
                raise self.refuse(node, f"a number is needed, got {spelled(leaf)}")
            found.append(self.numbers.value(leaf, next(wanted) if wanted else None))
        return found

    def types(self, value: Any) -> list[DType]:
        return [self.numbers.dtype(leaf) for leaf in leaves(value)]

    def plain(self, value: Any, node: ast.AST, what: str = "a number") -> Number | Literal:
        """A value that must be one number."""
        if isinstance(value, (Number, Literal)):
            return value
        if isinstance(value, Unset):
            raise self.refuse(node, value.why)
        raise self.refuse(node, f"{what} is needed, got {spelled(value)}")

    # Where ways meet.

    def common_type(self, name: str, a: Any, b: Any, node: ast.AST) -> DType:
        """The dtype of a variable that is one number on one way, and another on the other."""
        literals = [x for x in (a, b) if isinstance(x, Literal)]
        if len(literals) == 2:
            kinds = {type(x.number) for x in literals}
            if bool in kinds and len(kinds) > 1:
                raise self.differ(name, a, b, node)
            return (
                default_dtype(literals[0].number + literals[1].number) if bool not in kinds else dtypes.bool_
            )
        if literals:
            number = b if isinstance(a, Literal) else a
            fits = (
                number.dtype.kind == "bool"
                if isinstance(literals[0].number, bool)
                else (
                    number.dtype.kind != "bool"
                    and dtypes.weak(number.dtype, literals[0].number) is number.dtype
                )
            )
            if fits:
                return number.dtype
            raise self.differ(name, a, b, node)
        if a.dtype is not b.dtype:
            raise self.differ(name, a, b, node)
        return a.dtype

    def differ(self, name: str, a: Any, b: Any, node: ast.AST) -> KernelError:
        shown = "the result" if name.startswith("$") else name
        return self.refuse(
            node, f"{shown} is {spelled(a)} on one way and {spelled(b)} on the other: convert one of them"
        )

    def met(
        self, envs: tuple[Mapping[str, Any], Mapping[str, Any]], names: Iterable[str], node: ast.AST
    ) -> tuple[dict[str, Any], list[tuple[Any, Any, DType]]]:
        """Variables behind a branch: those that stay, and as Numbers to come the pairs of those that are chosen.

        The second is the pairs in order, each with its dtype; `chosen` puts what becomes of them in their places.
        """
        known: dict[str, Any] = {}
        pairs: list[tuple[Any, Any, DType]] = []
        for name in names:
            a, b = (env.get(name, _MISSING) for env in envs)
            known[name] = self._meet(name, a, b, node, pairs)
        return known, pairs

    def _meet(self, name: str, a: Any, b: Any, node: ast.AST, pairs: list[tuple[Any, Any, DType]]) -> Any:
        if a is b:
            return a
        if isinstance(a, Unset) or isinstance(b, Unset):
            there = b if isinstance(a, Unset) else a
            if not name.startswith("$") or isinstance(there, Unset):
                line = self.source.line(node)
                return Unset(f"{name} may be unset here: not every way through line {line} assigns it")
            if isinstance(there, Static):
                return there
            zero = rebuilt(there, iter([Literal(self.numbers.dtype(x).python(0)) for x in leaves(there)]))
            a, b = (zero, b) if isinstance(a, Unset) else (a, zero)
        if isinstance(a, Literal) and isinstance(b, Literal) and repr(a.number) == repr(b.number):
            return a
        if isinstance(a, Several) and isinstance(b, Several):
            if a.kind is not b.kind or len(a.items) != len(b.items):
                raise self.differ(name, a, b, node)
            both = zip(a.items, b.items, strict=True)
            return a.remade([self._meet(name, x, y, node, pairs) for x, y in both])
        if isinstance(a, (Number, Literal)) and isinstance(b, (Number, Literal)):
            pairs.append((a, b, self.common_type(name, a, b, node)))
            return _Chosen(len(pairs) - 1, self.numbers.positive(a) and self.numbers.positive(b))
        same = isinstance(a, Static) and isinstance(b, Static) and a.value is b.value
        if same or (isinstance(a, Array) and isinstance(b, Array) and a.name == b.name):
            return a
        raise self.differ(name, a, b, node)

    def chosen(self, known: Mapping[str, Any], values: tuple[Value, ...]) -> dict[str, Any]:
        """Variables with what was chosen in its place."""

        def fill(value: Any) -> Any:
            if isinstance(value, _Chosen):
                return Number(values[value.number], positive=value.positive)
            return value.remade([fill(x) for x in value.items]) if isinstance(value, Several) else value

        return {name: fill(value) for name, value in known.items()}

    def branch(
        self,
        condition: Value,
        then: Callable[[], None],
        orelse: Callable[[], None],
        node: ast.AST,
    ) -> None:
        """Runs one of two sides; variables that differ behind them are chosen."""
        before = self.env
        regions, envs = [], []
        for side in (then, orelse):
            self.env = dict(before)
            region = self.b.region()
            with self.b.inside(region):
                side()
            regions.append(region)
            envs.append(self.env)
        self.env = before
        names = dict.fromkeys(
            n for env in envs for n, v in env.items() if n not in before or v is not before[n]
        )
        with self.at(node):
            known, pairs = self.met((envs[0], envs[1]), names, node)
            yields = []
            for k, region in enumerate(regions):
                with self.b.inside(region):
                    yields.append([self.numbers.value((a, b)[k], dtype) for a, b, dtype in pairs])
            values = self.b.branch(condition, regions[0], regions[1], (yields[0], yields[1]))
        self.env = {**before, **self.chosen(known, values)}


class At:
    """The context of a node of the source: see Scope.at. It is entered for every node, so it is no generator."""

    __slots__ = ("before", "node", "scope", "source")

    def __init__(self, scope: Scope, node: ast.AST) -> None:
        self.scope = scope
        self.node = node

    def __enter__(self) -> None:
        self.source = self.scope.source
        self.before = self.scope.b.at
        self.scope.b.at = (self.source, self.node)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.scope.b.at = self.before
        if isinstance(error, Refused):
            raise self.source.refuse(self.node, str(error)) from None
        if isinstance(error, ProgramError) and not isinstance(error, KernelError):
            raise self.source.refuse(self.node, str(error)) from error


class _Chosen:
    """A place for one of the results of a branch."""

    def __init__(self, number: int, positive: bool) -> None:
        self.number = number
        self.positive = positive
