"""What a graph says of itself before it runs."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._ops import OpOverload

from hologram_torch.reach import reach

CHECKPOINTS = "torch.compile refuses checkpoints that draw random numbers"


def _drawing_twice() -> tuple[Any, Any]:
    from torch._prims import rng_prims

    return rng_prims.run_and_save_rng_state, rng_prims.run_with_rng_state


# What runs an operator and saves what it draws by, and what runs it again so.
SAVING, REPEATING = reach(
    "checkpoints",
    "torch._prims.rng_prims",
    CHECKPOINTS,
    _drawing_twice,
    (None, None),
)
HOST = torch.device("cpu")


def takes_memory(graph: torch.fx.GraphModule) -> bool:
    """Whether a tensor is among a graph's arguments: without one there is no device to run it on."""
    return any(isinstance(_value(n), torch.Tensor) for n in graph.graph.nodes if n.op == "placeholder")


def has_sizes(graph: torch.fx.GraphModule) -> bool:
    """Whether sizes are among a graph's arguments, as they are where shapes are dynamic."""
    return any(isinstance(_value(n), torch.SymInt) for n in graph.graph.find_nodes(op="placeholder"))


def draws(graph: torch.fx.GraphModule) -> bool:
    """Whether a graph draws random numbers; attention does so where it drops weights."""
    return any(map(_draws, graph.graph.nodes))


def _draws(node: torch.fx.Node) -> bool:
    saving = node.target is SAVING
    target = node.args[0] if saving else node.target
    if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    places = {argument.name: k for k, argument in enumerate(target._schema.arguments)}
    if node.target is SAVING or "dropout_p" not in places:
        return True
    at = places["dropout_p"]
    default = target._schema.arguments[at].default_value
    share = node.args[at] if at < len(node.args) else node.kwargs.get("dropout_p", default)
    return not (isinstance(share, (int, float)) and share == 0)


def on_host(graph: torch.fx.GraphModule) -> tuple[bool, ...]:
    """Which results PyTorch expects on the host."""
    (results,) = graph.graph.output_node().args
    assert isinstance(results, (tuple, list))
    values = [_value(r) if isinstance(r, torch.fx.Node) and not _is_state(r) else r for r in results]
    return tuple(isinstance(v, torch.Tensor) and v.device.type == "cpu" for v in values)


def _is_state(node: torch.fx.Node) -> bool:
    """Whether it is what random numbers were drawn by, which PyTorch takes for bytes on the host."""
    source = node.args[0] if node.target is operator.getitem else None
    return isinstance(source, torch.fx.Node) and source.target is SAVING and node.args[1:] == (0,)


def writes(graph: torch.fx.GraphModule) -> tuple[torch.fx.GraphModule, tuple[int, ...]]:
    """A graph that gives what it wrote to its arguments at its end, before all else; and which arguments these are."""
    places = {node: k for k, node in enumerate(graph.graph.find_nodes(op="placeholder"))}
    written: dict[int, torch.fx.Node] = {}
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
        target, source = node.args[:2]
        if target in places and isinstance(source, torch.fx.Node):
            written[places[target]] = source
            node.replace_all_uses_with(source)
            graph.graph.erase_node(node)
    if written:
        output = graph.graph.output_node()
        (results,) = output.args
        output.args = ((*written.values(), *results),)  # pyright: ignore
        graph.recompile()
    return graph, tuple(written)


def moved(graph: torch.fx.GraphModule, index: int) -> torch.fx.GraphModule:
    """The same graph with what it makes on the host made on a device of ours instead."""
    target = torch.device("hologram", index)

    def there(x: Any) -> Any:
        return target if isinstance(x, torch.device) and x == HOST else x

    changed = False
    for node in graph.graph.nodes:
        args, kwargs = torch.fx.node.map_aggregate((node.args, node.kwargs), there)  # pyright: ignore
        if node.op == "call_function" and (node.args, node.kwargs) != (args, kwargs):
            node.args, node.kwargs, changed = args, kwargs, True
    for name in [str(node.target) for node in graph.graph.nodes if node.op == "get_attr"]:
        constant = getattr(graph, name, None)
        if isinstance(constant, torch.Tensor) and constant.device == HOST:
            setattr(graph, name, constant.to(target))
    if changed:
        graph.recompile()
    return graph


def _value(node: torch.fx.Node) -> Any:
    return node.meta.get("val")
