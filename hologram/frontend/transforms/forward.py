"""Forward mode: beside each tensor its tangent, which goes through operations as their derivatives say.

The derivative of an element-wise operation is diagonal, so the rule that takes the result's cotangent back takes an
operand's tangent on. Any other rule is linear in the cotangent, and its own reverse mode is the way on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hologram.compiler.fusion.graph import Choice, Graph, Loop
from hologram.foundation.errors import GradientError
from hologram.frontend import tensor as tensors
from hologram.frontend.control.body import traced_body, united
from hologram.frontend.control.primitives import controlled, evaluated, settled
from hologram.frontend.control.state import named
from hologram.frontend.gradient.launches import launched_again
from hologram.frontend.gradient.tape import detached
from hologram.frontend.gradient.transforms import vjp
from hologram.frontend.jit.launched import Launched
from hologram.frontend.tensor import Tensor
from hologram.frontend.transforms.launches import Call, launch, with_tangents
from hologram.frontend.transforms.lifted import Lifted, Lifting
from hologram.machine.layout import Layout
from hologram.opset.forms.gradient import Rule, rules_of
from hologram.opset.forms.operation import Operation
from hologram.runtime.dispatch import traced_by, tracing
from hologram.runtime.engine import Engine

CHOICES = frozenset({"__bool__", "__int__", "__index__"})  # steps, whose derivative is 0


class Forward(Lifting):
    """Follows tangents; beside a tensor is its tangent, or None where that is 0."""

    what = "with a tangent"

    def known(self, x: Lifted, what: str) -> Tensor:
        if x.buffer.beside is not None and what not in CHOICES:
            raise GradientError(
                f"{self.who}: {what} of a tensor that depends on what it is differentiated with respect to has no "
                "derivative: use hg.stop_gradient(x) for a constant"
            )
        return self.primal(x)

    def primal(self, x: Any) -> Any:
        """A tensor beneath."""
        return x.buffer.tensor._view(x.layout) if self.owns(x) else x

    def tangent(self, x: Any) -> Any:
        """A tensor's tangent beneath; None where it is 0."""
        if not self.owns(x) or x.buffer.beside is None:
            return None
        return x.buffer.beside._view(x.layout)

    def with_tangent(self, primal: Tensor, tangent: Tensor | None) -> Lifted:
        """A tensor of the function."""
        layout = Layout.contiguous(primal.dtype, primal.shape)
        with traced_by(self.outer):
            slope = None if tangent is None else settled(tangent)
        return self.lifted(primal, layout, slope)

    def detach(self, engine: Engine, x: Any) -> Any:
        return self.constant(self.below(detached, "stop_gradient", engine, self.primal(x)))

    def apply(
        self, engine: Engine, operation: Operation, operands: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Any:
        if isinstance(operation, Launched):
            return launched_again(self, engine, operation, operands, launch)
        given = tensors.operands_of(engine, operation, operands)
        plain = [self.primal(x) for x in given]
        returned = self.below(tensors.evaluated, operation.name, engine, operation, plain, attributes)
        results = returned if isinstance(returned, tuple) else (returned,)
        names = operation.operand_names(len(given))
        moving = {n: self.tangent(x) for n, x in zip(names, given, strict=True)}
        moving = {n: t for n, t in moving.items() if t is not None}
        slopes: Sequence[Any] = [None] * len(results)
        if moving:
            with traced_by(self.outer):
                slopes = _slopes(operation, dict(zip(names, plain, strict=True)), attributes, results, moving)
        made = tuple(self.with_tangent(r, s) for r, s in zip(results, slopes, strict=True))
        return made if isinstance(returned, tuple) else made[0]

    def launched(self, call: Call) -> Sequence[Lifted]:
        return with_tangents(self, call)

    def control(self, engine: Engine, control: Loop | Choice, operands: Sequence[Any]) -> tuple[Any, ...]:
        with traced_by(self.outer):
            primals = [self.primal(x) for x in operands]
            slopes = [self.tangent(x) for x in operands]
            if all(s is None for s in slopes):
                return tuple(map(self.constant, controlled(engine, control, primals)))
            if isinstance(control, Choice):
                pairs = _choice(engine, control, primals, slopes)
            else:
                pairs = _loop(engine, control, primals, slopes)
        return tuple(self.with_tangent(p, s) for p, s in pairs)


def pushed(who: str, function: Any, primals: Sequence[Any], tangents: Sequence[Any], engine: Engine) -> Any:
    """A function's result for tensors with tangents, and the tracer that knows it; None is a tangent of 0."""
    tracer = Forward(who, tracing(), engine)
    given = [tracer.with_tangent(p, t) for p, t in zip(primals, tangents, strict=True)]
    with traced_by(tracer):
        return function(*given), tracer


def pushed_graph(graph: Graph, primals: Sequence[Any], tangents: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The outputs of a graph with their tangents."""
    engine = primals[0].executor
    results, tracer = pushed("", lambda *given: evaluated(graph, given, engine), primals, tangents, engine)
    return [(tracer.primal(r), tracer.tangent(r)) for r in results]


def _slopes(
    operation: Operation,
    operands: Mapping[str, Any],
    attributes: Mapping[str, Any],
    results: Sequence[Tensor],
    moving: Mapping[str, Tensor],
) -> list[Any]:
    """The tangents of an operation's results from those of its operands."""
    inputs = [x.layout if isinstance(x, Tensor) else x for x in operands.values()]
    rules = rules_of(operation, inputs, [r.layout for r in results], attributes, tuple(moving))
    everything = {**operands, **attributes, "inputs": inputs, "results": results, "result": results[0]}
    everything["wanted"] = tuple(moving)
    slopes: list[Any] = [None] * len(results)
    for rule in rules:
        for k, slope in enumerate(_along(operation, rule, everything, results, moving)):
            if slope is not None:
                slopes[k] = slope if slopes[k] is None else slopes[k] + slope
    return slopes


def _along(
    operation: Operation,
    rule: Rule,
    everything: Mapping[str, Any],
    results: Sequence[Tensor],
    moving: Mapping[str, Tensor],
) -> list[Any]:
    """What the operands of a rule contribute to each result."""
    floats = [r for r in results if r.dtype.is_inexact]
    parts = [r.dtype.is_complex for r in (*results, *(moving[n] for n in rule.operands if n in moving))]
    if operation.pointwise and len(results) == 1 and not any(parts):  # of complex numbers a rule conjugates
        (result,), (name,) = results, rule.operands
        slope = moving[name].astype(result.dtype, copy=False).expand(result.shape)
        (pulled,) = rule.apply({**everything, "cotangent": slope, "cotangents": [slope]})
        return [None if pulled is None else pulled.expand(result.shape).astype(result.dtype, copy=False)]

    def back(*cotangents: Any) -> Any:
        pulled = rule.apply({**everything, "cotangent": cotangents[0], "cotangents": list(cotangents)})
        found = dict(zip(rule.operands, pulled, strict=True))
        return [found.get(n) for n in moving if n in rule.operands]

    zeros = [tensors.full(r.executor, r.shape, 0, r.dtype) for r in floats]
    arrived, transposed = vjp(back, *zeros)
    forward = [moving[n] for n in moving if n in rule.operands]
    given = [None if a is None else _summed_like(t, a) for t, a in zip(forward, arrived, strict=True)]
    found = iter(transposed(given))
    return [next(found) if r.dtype.is_inexact else None for r in results]


def _summed_like(tangent: Tensor, pulled: Tensor) -> Tensor:
    """A tangent in the shape that a rule gives a cotangent in, where broadcasting is still to be undone."""
    return tangent.astype(pulled.dtype, copy=False).expand(pulled.shape)


def _loop(
    engine: Engine, loop: Loop, primals: Sequence[Tensor], slopes: Sequence[Any]
) -> list[tuple[Any, Any]]:
    """A loop that carries tangents beside what it carries, and goes over those of rows."""
    ends = (loop.constants, loop.constants + loop.carried)
    state, rows = primals[slice(*ends)], primals[ends[1] :]
    floats = [k for k, x in enumerate(state) if x.dtype.is_inexact]
    begun = [_slope(engine, state[k], slopes[ends[0] + k]) for k in floats]
    moving = [k for k, s in enumerate(slopes[ends[1] :]) if s is not None]
    along = [slopes[ends[1] + k] for k in moving]
    made = loop.infer()
    stacked = [k for k in range(loop.carried, len(made)) if made[k].dtype.is_inexact]

    def step(*given: Any) -> Any:
        rest = iter(given)
        carried, flowing = ([next(rest) for _ in x] for x in (state, floats))
        row, beside = ([next(rest) for _ in x] for x in (rows, moving))
        tangents: list[Any] = [*slopes[: ends[0]], *[None] * (len(carried) + len(row))]
        for k, slope in zip(floats, flowing, strict=True):
            tangents[ends[0] + k] = slope
        for k, slope in zip(moving, beside, strict=True):
            tangents[ends[1] + k] = slope
        pairs = pushed_graph(loop.body, [*primals[: ends[0]], *carried, *row], tangents)
        results = [p for p, _ in pairs]
        on = [_slope(engine, pairs[k][0], pairs[k][1]) for k in floats]
        out = [_slope(engine, pairs[k][0], pairs[k][1]) for k in stacked]
        return [*results[: loop.carried], *on, *results[loop.carried :], *out]

    like = [*state, *begun, *(_first(x) for x in (*rows, *along))]
    bodies = [traced_body(engine, loop.who, named(step, loop.who), like)]
    if loop.condition is not None:
        condition = loop.condition

        def goes_on(*given: Any) -> Any:
            return evaluated(condition, [*primals[: ends[0]], *given[: len(state)]], engine)

        bodies.append(traced_body(engine, loop.who, goes_on, [*state, *begun]))
    graphs, captured = united(bodies)
    ended = graphs[1] if loop.condition is not None else None
    carried = len(state) + len(begun)
    whole = Loop(loop.who, graphs[0], len(captured), carried, loop.length, loop.reverse, ended)
    results = list(controlled(engine, whole, [*captured, *state, *begun, *rows, *along]))
    values = [*results[: len(state)], *results[carried : carried + len(made) - loop.carried]]
    further = dict(
        zip(
            [*floats, *stacked],
            [*results[len(state) : carried], *results[carried + len(made) - loop.carried :]],
            strict=True,
        )
    )
    return [(v, further.get(k)) for k, v in enumerate(values)]


def _choice(
    engine: Engine, choice: Choice, primals: Sequence[Tensor], slopes: Sequence[Any]
) -> list[tuple[Any, Any]]:
    """A choice of branches that give tangents beside results."""
    number, *given = primals
    made = choice.infer()
    floats = [k for k, x in enumerate(made) if x.dtype.is_inexact]
    moving = [k for k, s in enumerate(slopes[1:]) if s is not None]

    def followed(graph: Graph) -> Any:
        def branch(*arrived: Any) -> Any:
            tangents: list[Any] = [None] * len(given)
            for k, slope in zip(moving, arrived[len(given) :], strict=True):
                tangents[k] = slope
            pairs = pushed_graph(graph, arrived[: len(given)], tangents)
            return [*(p for p, _ in pairs), *(_slope(engine, *pairs[k]) for k in floats)]

        return branch

    everything = [*given, *(slopes[1 + k] for k in moving)]
    bodies = [traced_body(engine, choice.who, followed(g), everything) for g in choice.branches]
    graphs, captured = united(bodies)
    results = controlled(engine, Choice(choice.who, tuple(graphs)), [number, *captured, *everything])
    further = dict(zip(floats, results[len(made) :], strict=True))
    return [(results[k], further.get(k)) for k in range(len(made))]


def _slope(engine: Engine, primal: Tensor, slope: Any) -> Tensor:
    """A tangent, or zeros."""
    return tensors.full(engine, primal.shape, 0, primal.dtype) if slope is None else slope


def _first(x: Tensor) -> Any:
    """What a row of a tensor is like."""
    return Layout.contiguous(x.dtype, x.shape[1:])
