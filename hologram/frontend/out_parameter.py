"""How the out-parameter functions, `hg.ops.vector_add(ex, a, b, c)`, are derived from the operations' declarations.

Each takes the executor, the inputs, the outputs, then attributes (by position or name). Element-wise functions also
take a trailing element count: that many elements of every buffer, seen flat, are computed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from hologram.foundation.errors import BufferFreed, ShapeError
from hologram.frontend.executor import Executor
from hologram.frontend.tensor import Tensor
from hologram.opset import OPERATIONS
from hologram.opset.forms.map import Elementwise
from hologram.opset.forms.operation import Operation
from hologram.runtime.dispatch import Dispatch
from hologram.runtime.engine import OUT
from hologram.runtime.launches import checks
from hologram.runtime.launches.recording import Recording
from hologram.runtime.launches.validation import cache_key
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.view import View, sharing


def _execute(operation: Operation, ex: Executor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The general path: sorts the arguments, checks them, runs."""
    if not isinstance(ex, Executor):
        raise TypeError(f"{operation.name}: the first argument must be an Executor, got {type(ex).__name__}")
    inputs, outputs = len(operation.operands), operation.results
    if len(args) < inputs + outputs:
        names = ", ".join(operation.operands)
        raise TypeError(
            f"{operation.name}: takes the operands {names} and {outputs} output(s) after the executor, got {len(args)}"
        )
    operands: tuple[Any, ...]
    operands, targets, rest = args[:inputs], args[inputs : inputs + outputs], args[inputs + outputs :]
    if isinstance(operation, Elementwise) and len(rest) == 1 and not operation.attributes:
        operands, targets = _prefix(operation.name, rest[0], operands, targets)
        rest = ()
    operands, attributes = operation.bind((*operands, *rest), _described(operation, targets) | kwargs)
    if any(isinstance(o, (tuple, list)) for o in operands):
        groups: Any = (tuple(map(_tensor, o)) if isinstance(o, (tuple, list)) else o for o in operands)
        operands = tuple(groups)
    if operation.composite:
        ex.dispatch(_run_composite, operation.name, operation, ex, operands, targets, attributes)
    else:
        ex.execute(operation, operands, targets, attributes)


def _described(operation: Operation, targets: tuple[Any, ...]) -> dict[str, Any]:
    """What an operation without operands asks, where the output says it: its shape and dtype."""
    out = _tensor(targets[0])
    if operation.operands or not isinstance(out, Tensor):
        return {}
    return {
        name: value
        for name, value in (("shape", out.shape), ("dtype", out.dtype))
        if name in operation.attributes
    }


def _prefix(who: str, count: Any, operands: tuple[Any, ...], targets: tuple[Any, ...]) -> tuple[Any, Any]:
    """The first `count` elements of every buffer."""
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"{who}: the element count must be an integer, got {count!r}")

    def cut(operand: Any) -> Any:
        tensor = _tensor(operand)
        if not isinstance(tensor, Tensor):
            return operand
        if not 0 <= count <= tensor.size:
            raise ShapeError(f"{who}: the element count must lie in [0, {tensor.size}], got {count}")
        return tensor.reshape(tensor.size).narrow(0, 0, count)

    return tuple(map(cut, operands)), tuple(map(cut, targets))


def _tensor(operand: Any) -> Any:
    if isinstance(operand, Buffer):
        if operand.freed:
            raise BufferFreed("an operand's buffer was freed")
        return Executor.as_tensor(operand)
    return operand


def _of_view(operand: Any) -> Any:
    """A checked operand as composites take it."""
    if isinstance(operand, tuple):
        return tuple(map(_of_view, operand))
    return Tensor(operand.buffer, operand.layout) if isinstance(operand, View) else operand


def _run_composite(
    operation: Operation,
    ex: Executor,
    operands: tuple[Any, ...],
    targets: tuple[Any, ...],
    attributes: dict[str, Any],
) -> None:
    checked, outputs = checks.checked(ex, operation, operands, targets)
    views = [_of_view(v) for v in checked]
    results = operation(*views, **attributes)
    results = results if isinstance(results, tuple) else (results,)
    operation.check_outputs([r.layout for r in results], [t.layout for t in outputs])
    for result, target in zip(results, outputs, strict=True):
        ex.copy(result, target)


def _remember(
    operation: Operation, ex: Executor, args: Sequence[Any], defaults: tuple[Any, ...], key: tuple[Any, ...]
) -> None:
    """Keeps what a call on whole buffers ran, if it was one launch, by their kinds.

    The pool's blocks all begin on a cache line, so what `sharing` says of a large output holds for the next one too.
    """
    layouts, outputs = [a.kind.layout for a in args], range(len(args) - operation.results, len(args))
    shared = sharing(layouts, [a.block.place for a in args], outputs)
    structure = ex.structures.get((operation, OUT, *layouts, shared, *defaults))
    if structure is not None and shared is not None and not any(shared):
        ex.structures.keep(key, structure)


recordings = Recording.open
PUBLIC = "hologram.ops"  # the module where users, and pickles, find the functions


def _function(operation: Operation, name: str) -> Callable[..., None]:
    """The function of one operation; calls on buffers of kinds that it met take the short way."""
    arity = len(operation.operands) + operation.results
    defaults = tuple(map(cache_key, operation.attributes.values()))
    tracers = Dispatch.tracers  # a launch that is known passes no dispatch, so nobody may be tracing

    def call(ex: Executor, *args: Any, **kwargs: Any) -> None:
        key: Any = None
        launch: Any = None
        places: Any = None
        try:
            if kwargs or tracers or recordings or not ex.usable:
                raise KeyError
            # The commonest are spelled out: a list of blocks costs as much as a launch.
            if len(args) == 2:
                x, z = args
                a, out = x.block, z.block
                if out is not a and not out.adopted:
                    key = (operation, x.kind, z.kind)
                    places = [a.place, out.place]
            elif len(args) == 3:
                x, y, z = args
                a, b, out = x.block, y.block, z.block
                if out is not a and out is not b and not out.adopted:
                    key = (operation, x.kind, y.kind, z.kind)
                    places = [a.place, b.place, out.place]
            else:
                blocks = [x.block for x in args]
                out = blocks[-1]
                if blocks.count(out) == 1 and not out.adopted:
                    key = (operation, *[x.kind for x in args])
                    places = [block.place for block in blocks]
            launch = ex.structures[key].launch
        # Not all are buffers, one was freed, or their kinds are new.
        except (AttributeError, KeyError, IndexError):
            launch = None
        if launch is not None:
            launch(places)
            return
        _execute(operation, ex, args, kwargs)
        if key is not None and operation.results == 1 and len(args) == arity:
            _remember(operation, ex, args, defaults, key)

    call.__name__ = call.__qualname__ = name
    call.__module__ = PUBLIC
    call.__doc__ = operation.function.__doc__
    call.__signature__ = _signature(operation)  # type: ignore[attr-defined]
    return call


def _signature(operation: Operation) -> inspect.Signature:
    """What help() shows: the executor, operands and outputs go by place, attributes by place or name."""
    kinds = inspect.Parameter
    outputs = ["out"] if operation.results == 1 else [f"out{k}" for k in range(operation.results)]
    parameters = [kinds(n, kinds.POSITIONAL_ONLY) for n in ("ex", *operation.operands, *outputs)]
    if isinstance(operation, Elementwise) and not operation.attributes:
        parameters.append(kinds("count", kinds.VAR_POSITIONAL))
    attributes = [p for p in operation.__signature__.parameters.values() if p.name in operation.attributes]
    if not operation.operands:  # the output says what shape and dtype it has
        asked = (p for p in attributes if p.name not in ("shape", "dtype"))
        attributes = [p.replace(kind=kinds.KEYWORD_ONLY) for p in asked]
    return inspect.Signature([*parameters, *attributes])


def functions() -> dict[str, Callable[..., None]]:
    """Every function, by each of its names."""
    by_name = {}
    for operation in OPERATIONS.values():
        for name in (operation.name, *operation.out_names):
            by_name[name] = _function(operation, name)
    return by_name
