"""The short way of the commonest calls: those that compute one operation.

What such a call does depends on the layouts of its tensors, the types of its numbers and the values of all else, so it
is learnt once, by the kernel's long way. After that a call is two look-ups, a launch, and the making of a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._C._dynamo.guards import TensorGuards  # pyright: ignore

from hologram.dtypes import f32, f64
from hologram.errors import HologramError
from hologram.frontend.tensor import Tensor
from hologram.layout import Layout
from hologram.opset.forms.operation import Operation
from hologram.runtime.allocation import Kind
from hologram.runtime.buffer import Buffer
from hologram.runtime.dispatch import Dispatch
from hologram.runtime.validation import exactly
from hologram_torch.device.devices import devices
from hologram_torch.kernels.kernel import Expected, InPlace, Kernel
from hologram_torch.kernels.numbers import is_within
from hologram_torch.tensors.memory import fresh, held, hologram_tensor, torch_tensor

MAX_PLANS = 4096
MANY = 16  # numbers that a plan meets before it takes them to be different each time
NUMBERS = frozenset({bool, int, float})
Bind = Callable[..., tuple[Operation, Sequence[Any], Mapping[str, Any]]]  # an operation, operands, attributes

tracers = Dispatch.tracers
_guards: Any = TensorGuards


@dataclass(eq=False)
class Plan:
    """What a signature computes; `kind`, that of the result, is None where the long way must be gone."""

    kind: Kind | None = None
    index: int = 0
    operation: Any = None
    operands: tuple[Any, ...] = ()  # layouts and numbers
    attributes: Mapping[str, Any] = field(default_factory=dict)
    met: int = 0  # numbers, so far
    guards: int = 0  # made, so far
    # Two tensors are all of buffers of the kinds learnt.
    whole: Callable[[Any, Any], bool] = lambda x, y: False

    def guard(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Knows such tensors again by PyTorch's own check, which is quicker than taking them apart."""
        if self.guards < MANY:
            self.guards += 1
            self.whole = _guards(x, y, dynamic_dims_sizes=None, dynamic_dims_strides=None).check


def quick(kernel: Kernel, operation: Operation) -> Callable[..., Any]:
    """The kernel, with the short way before it; it computes one operation where it is given no other arguments."""
    if isinstance(kernel, InPlace):
        return _updating(kernel, operation)
    if len(operation.operands) == 2:
        return _binary(kernel, operation)
    return settled(kernel, lambda x: (operation, (x,), operation.attributes))


def _learn(
    plans: dict[Any, Plan],
    key: Any,
    expected: Expected,
    operation: Operation,
    operands: Sequence[Any],
    attributes: Mapping[str, Any],
) -> None:
    """Keeps what a call of the kernel computes, after it went the long way."""
    first = next(o for o in operands if isinstance(o, Tensor))
    engine: Any = first.executor
    plan = Plan()
    if not operation.composite and not any(expected.casts):
        kinds = engine._sign(operation, operands, attributes).kinds
        if expected.results == tuple(kind.layout for kind in kinds) and len(kinds) == 1:
            shown = tuple(o.layout if isinstance(o, Tensor) else o for o in operands)
            plan = Plan(kinds[0], devices.number(engine), operation, shown, attributes)
    if len(plans) >= MAX_PLANS:
        plans.clear()
    plans[key] = plan


def settled(kernel: Kernel, bind: Bind) -> Callable[..., Any]:
    """The kernel, with the short way before it; it computes the operation that `bind` takes from the arguments."""
    plans: dict[Any, Plan] = {}

    def learned(key: Any, buffers: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        found, expected = kernel.run(args, dict(kwargs))
        if key in plans or not expected.results:
            return found
        operation, operands, attributes = bind(*args, **kwargs)
        given = [hologram_tensor(o) if isinstance(o, torch.Tensor) else o for o in operands]
        if [o.buffer for o in given if isinstance(o, Tensor)] == buffers:
            _learn(plans, key, expected, operation, given, attributes)
        else:
            plans[key] = Plan()
        return found

    def call(*args: Any, **kwargs: Any) -> Any:
        if tracers:
            return kernel(*args, **kwargs)
        given: list[Any] = [None]
        buffers: list[Any] = []
        try:
            for a in (*args, *kwargs.values(), *kwargs) if kwargs else args:
                if isinstance(a, torch.Tensor):
                    buffer, layout = held(a)
                    buffers.append(buffer)
                    given.append(layout)
                else:
                    given += (type(a), exactly(a))
            given[0] = engine = buffers[0].executor
            key = tuple(given)
            plan = plans.get(key)
        except (AttributeError, KeyError, TypeError, IndexError):  # what only the long way knows
            return kernel(*args, **kwargs)
        if plan is None or plan.kind is None or any(b.executor is not engine for b in buffers):
            return learned(key, buffers, args, kwargs)
        kind = plan.kind
        try:
            result = Buffer(engine, engine.block(kind), kind)
            bound = (plan, *[b.key for b in buffers], result.key)
            launch = engine.launches.get(bound)
            if launch is None:
                rest = iter(buffers)
                operands = [Tensor(next(rest), o) if isinstance(o, Layout) else o for o in plan.operands]
                launch = engine._planned(bound, plan.operation, operands, [result], plan.attributes)
            launch()
        except HologramError as error:
            raise kernel.refusal(error) from error
        return fresh(result, kind.layout, plan.index)

    return call


def _binary(kernel: Kernel, operation: Operation) -> Callable[..., Any]:
    """Of two tensors, or a tensor and a number, which may be another one each time."""
    plans: dict[Any, Plan] = {}
    wholes: dict[Any, Plan] = {}  # by the kinds of buffers that operands are all of

    def call(x: Any, y: Any, *rest: Any, **kwargs: Any) -> Any:
        if rest or kwargs or tracers:
            return kernel(x, y, *rest, **kwargs)
        b: Any = None
        right: Any = type(y)
        try:
            if right in NUMBERS:
                a, left = held(x)
                known: Any = exactly(y)
                plan = plans.get((a.executor, left, right))
            else:
                a, b = x.untyped_storage().payload, y.untyped_storage().payload
                known = b.key
                left, right = a.kind.layout, b.kind.layout
                plan = wholes.get((a.kind, b.kind))
                if plan is None or not plan.whole(x, y):
                    a, left = held(x)
                    b, right = held(y)
                    plan = plans.get((a.executor, left, right))
                    if plan is not None and left is a.kind.layout and right is b.kind.layout:
                        plan.guard(x, y)
                        wholes[a.kind, b.kind] = plan
        except (AttributeError, KeyError):  # a tensor of the host, or of a dtype that hologram has not
            return kernel(x, y)
        engine = a.executor
        if plan is None or plan.kind is None or (b is not None and b.executor is not engine):
            found, expected = kernel.run((x, y), {})
            if plan is None:
                given = (Tensor(a, left), _operand(y, b, right))
                _learn(plans, (engine, left, right), expected, operation, given, operation.attributes)
            return found
        kind = plan.kind
        try:
            result = Buffer(engine, engine.block(kind), kind)
            key = (plan, a.key, known, result.key)
            launch = engine.launches.get(key)
            if launch is None:
                if b is None:
                    plan.met += 1
                    if plan.met > MANY and right is float and left.dtype in (f32, f64):
                        scalar = engine.tensor(y, left.dtype)
                        return torch_tensor(operation(Tensor(a, left), scalar, **operation.attributes))
                operands: list[Any] = [Tensor(a, left), _operand(y, b, right)]
                if b is None and left.dtype.is_integer and not is_within(y, left.dtype):
                    return kernel(x, y)  # which has it wrap round
                launch = engine._planned(key, operation, operands, [result], operation.attributes)
            launch()
        except HologramError as error:
            raise kernel.refusal(error) from error
        return fresh(result, kind.layout, plan.index)

    return call


def _operand(x: Any, buffer: Any, layout: Any) -> Any:
    """A number, which has no buffer, or a tensor."""
    return x if buffer is None else Tensor(buffer, layout)


def _updating(kernel: InPlace, operation: Operation) -> Callable[..., Any]:
    """Of an operation that writes over its first operand."""
    known: set[Any] = set()

    def call(x: Any, *rest: Any, **kwargs: Any) -> Any:
        if kwargs or tracers or len(rest) > 1:
            return kernel(x, *rest, **kwargs)
        y: Any = rest[0] if rest else None
        b: Any = None
        right: Any = type(y)
        try:
            a, left = held(x)
            if rest and right not in NUMBERS:
                b, right = held(y)
        except (AttributeError, KeyError):
            return kernel(x, *rest)
        if b is a and right is not left:  # which may overlap
            return kernel(x, *rest)
        if b is None and rest and left.dtype.is_integer and not is_within(y, left.dtype):
            return kernel(x, y)  # which has it wrap round
        engine = a.executor
        if (engine, left, right) not in known or (b is not None and b.executor is not engine):
            found, expected = kernel.run((x, *rest), {})
            if not any(expected.casts):
                if len(known) >= MAX_PLANS:
                    known.clear()
                known.add((engine, left, right))
            return found
        target = Tensor(a, left)
        operands: list[Any] = [target] if not rest else [target, _operand(y, b, right)]
        try:
            if engine._update(operation, operands, target):
                return x
        except HologramError as error:
            raise kernel.refusal(error) from error
        return kernel(x, *rest)

    return call
