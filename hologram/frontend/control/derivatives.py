"""Reverse mode through loops and choices: each is followed backwards by another of its kind.

The way there of a scan keeps what is carried into each turn; the way back goes through the turns from the last to the
first, computes each once more, and follows it. So memory grows by what is carried, not by what a turn computes. The way
back is written in terms of loops and choices, so it is differentiated in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from hologram.compiler.fusion.graph import Choice, Graph, Loop, Node, Read
from hologram.foundation.errors import GradientError
from hologram.frontend import tensor as tensors
from hologram.frontend.control import branches
from hologram.frontend.control.primitives import evaluated, run
from hologram.frontend.control.scan import scan
from hologram.frontend.control.state import named
from hologram.frontend.gradient.tape import FOLLOWED, Tape
from hologram.frontend.gradient.transforms import on_tape, vjp
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram.opset.movement import cast
from hologram.runtime.engine import Engine


def followed(tape: Tape, engine: Engine, control: Loop | Choice, operands: Sequence[Any]) -> tuple[Any, ...]:
    """The results of a loop or a choice, on the tape."""
    plain = [x.beneath if tape.owns(x) else x for x in operands]
    if not any(map(tape.follows, operands)):
        made = tape.below(run, control.who, engine, control, plain)
        return tuple(map(tape.tracked, made))
    if isinstance(control, Choice):
        results = tape.below(run, control.who, engine, control, plain)
        back: Callable[[Any], Any] = lambda cotangent: _choice_back(control, plain, cotangent)  # noqa: E731
    else:
        if control.condition is not None:
            raise GradientError(
                f"{control.who}: reverse mode needs a loop whose number of turns is known: use hg.scan, or "
                "hg.fori_loop with bounds that are Python's integers, or hg.stop_gradient"
            )
        everything = tape.below(run, control.who, engine, keeping(control), plain)
        results = (*everything[: control.carried], *everything[2 * control.carried :])
        kept = everything[control.carried : 2 * control.carried]
        back = lambda cotangent: _scan_back(control, plain, kept, cotangent)  # noqa: E731
    return on_tape(tape, control.who, tuple(operands), tuple(results), back)


def keeping(loop: Loop) -> Loop:
    """A loop that also stacks what is carried into each turn, ahead of its rows."""
    body, values = loop.body, list(loop.body.inputs)
    numbers = count(1 + max(body.layouts))
    nodes, kept = [], []
    for value in values[loop.constants : loop.constants + loop.carried]:
        layout = body.layouts[value]
        kept.append(next(numbers))
        nodes.append(Node(cast, (Read(value, layout),), {"dtype": layout.dtype.name}, (kept[-1],), (layout,)))
    outputs = (*body.outputs[: loop.carried], *kept, *body.outputs[loop.carried :])
    return replace(loop, body=replace(body, nodes=(*body.nodes, *nodes), outputs=outputs))


def _scan_back(
    loop: Loop, operands: Sequence[Tensor], kept: Sequence[Tensor], cotangent: Sequence[Any]
) -> tuple[Any, ...]:
    """The cotangents of a scan's operands; None of those that are no floats."""
    engine = operands[0].executor
    constants = operands[: loop.constants]
    rows = operands[loop.constants + loop.carried :]
    made = loop.infer()
    whole = [_given(engine, c, x) for c, x in zip(cotangent, made, strict=True)]

    def step(state: Any, given: Any) -> Any:
        flowing, sums = state
        carried, row, arrived = given
        pulled = _pulled(loop.body, (*constants, *carried, *row), [*flowing, *arrived])
        ends = (loop.constants, loop.constants + loop.carried)
        added = [a + b if _is_inexact(b) else a for a, b in zip(sums, pulled[: ends[0]], strict=True)]
        flows = [_given(engine, p, x) for p, x in zip(pulled[slice(*ends)], made, strict=False)]
        return (flows, added), [_given(engine, p, r) for p, r in zip(pulled[ends[1] :], row, strict=True)]

    sums = [_given(engine, None, x) for x in constants]
    xs = (list(kept), list(rows), whole[loop.carried :])
    (flowing, totals), further = scan(
        named(step, loop.who), (whole[: loop.carried], sums), xs, length=loop.length, reverse=not loop.reverse
    )
    found = [*totals, *flowing, *further]
    return tuple(f if _is_inexact(x) else None for f, x in zip(found, operands, strict=True))


def _choice_back(choice: Choice, operands: Sequence[Tensor], cotangent: Sequence[Any]) -> tuple[Any, ...]:
    """The cotangents of a choice's operands: those that the branch which ran gives."""
    number, *given = operands
    engine = number.executor

    def back(graph: Graph) -> Callable[..., Any]:
        def pulled(*arrived: Any) -> Any:
            found = _pulled(graph, given, _slots(cotangent, arrived))
            return [_given(engine, p, x) for p, x in zip(found, given, strict=True) if _is_inexact(x)]

        return named(pulled, choice.who)

    there = [c for c in cotangent if c is not None]
    functions = [back(graph) for graph in choice.branches]
    rest = iter(branches.chosen(choice.who, number, functions, there))
    return (None, *(next(rest) if _is_inexact(x) else None for x in given))


def _slots(cotangent: Sequence[Any], arrived: Sequence[Any]) -> list[Any]:
    rest = iter(arrived)
    return [None if c is None else next(rest) for c in cotangent]


def _pulled(graph: Graph, operands: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
    """The cotangents of a graph's inputs from those of its outputs; None of what has none."""
    floats = [x for x in operands if _is_inexact(x)]

    def function(*chosen: Any) -> Any:
        rest = iter(chosen)
        given = [next(rest) if _is_inexact(x) else x for x in operands]
        return evaluated(graph, given, operands[0].executor)

    if not floats:
        return [None for _ in operands]
    _, pullback = vjp(function, *floats)
    made = [graph.layouts[v] for v in graph.outputs]
    found = iter(pullback([c if x.dtype.is_inexact else None for c, x in zip(cotangents, made, strict=True)]))
    return [next(found) if _is_inexact(x) else None for x in operands]


def _given(engine: Any, cotangent: Any, like: Tensor | Layout) -> Tensor:
    """A cotangent, or zeros where none came."""
    if cotangent is not None and _is_inexact(like):
        return cotangent
    return tensors.full(engine, like.shape, 0, like.dtype)


def _is_inexact(x: Any) -> bool:
    return x is not None and x.dtype.is_inexact


FOLLOWED[run] = followed
