"""The one request for loops and choices: done at once, or followed by whoever traces the thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hologram.compiler.fusion.control import in_order, what
from hologram.compiler.fusion.graph import Choice, Control, Graph, Loop, Node, Read
from hologram.frontend import tensor as tensors
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram.opset.movement import cast
from hologram.runtime.engine import Engine
from hologram.runtime.launches.looping import placed
from hologram.runtime.launches.stages import runner
from hologram.runtime.memory.ownership import from_its_beginning


def controlled(engine: Engine, control: Loop | Choice, operands: Sequence[Any]) -> tuple[Tensor, ...]:
    """The results of a loop or a choice; see the classes for what the operands are."""
    return engine.dispatch(run, control.who, engine, control, operands)


def run(engine: Engine, control: Loop | Choice, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Runs it; what runs it is kept by what it computes."""
    key = what(control)
    known = engine.controls.get(key)
    if known is None:
        known = engine.controls.keep(key, runner(engine, control))
    given = [x if x.layout.is_contiguous and not x.offset else placed(engine, x) for x in operands]
    begun = [from_its_beginning(x) if x.layout.offset else x for x in given]  # as values of a trace lie
    return tuple(map(tensors.as_tensor, known(begun)))


def evaluated(graph: Graph, operands: Sequence[Any], engine: Engine) -> list[Any]:
    """A graph's outputs for tensors, operation by operation: done at once, or followed by whoever traces."""
    known: dict[int, Any] = {v: settled(x) for v, x in zip(graph.inputs, operands, strict=True)}
    for step in in_order(graph):
        if isinstance(step, Control):
            made: Any = controlled(engine, step.what, [known[r.value]._view(r.layout) for r in step.operands])
        else:
            made = _applied(step, known, engine)
        known.update(zip(step.results, made, strict=True))
    return [known[v] for v in graph.outputs]


def settled(tensor: Any) -> Any:
    """A tensor whose layout is that of memory of its own, so that layouts over it are its views."""
    return tensor if tensor.layout == Layout.contiguous(tensor.dtype, tensor.shape) else tensor.clone()


def _applied(node: Node, known: dict[int, Any], engine: Engine) -> tuple[Any, ...]:
    operands = [known[o.value]._view(o.layout) if isinstance(o, Read) else o for o in node.operands]
    made = tensors.apply(engine, node.operation, operands, node.attributes)
    results = made if isinstance(made, tuple) else (made,)
    return tuple(
        # A number of a call is a tensor here, which has a say in the dtype.
        r if r.dtype == at.dtype else tensors.apply(engine, cast, [r], {"dtype": at.dtype.name})
        for r, at in zip(results, node.layouts, strict=True)
    )
