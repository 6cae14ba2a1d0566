"""A graph with operators that cannot be compiled: stages between them are, theirs run as they are.

They are what the host does, by LAPACK, what several processes do, what must know how many elements a mask names, and
what goes one way or another by an element.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from hologram.foundation.frozen import frozen
from hologram_torch.fallback import by_design
from hologram_torch.kernels.operators import present
from hologram_torch.reach import reach


def _effects() -> tuple[Any, ...]:
    from torch._higher_order_ops.effects import with_effects

    return with_effects, torch.ops.prims._make_token.default, torch.ops.prims._sink_tokens.default


EFFECTS = reach(
    "effects",
    "torch._higher_order_ops.effects",
    "torch.compile refuses operators with side effects",
    _effects,
    (),
)
BRANCHES = [
    getattr(torch.ops.higher_order, name)
    for name in ("cond", "while_loop", "while_loop_stack_output")
    if hasattr(torch.ops.higher_order, name)
]
# How many rows each of their products has, an element says.
GROUPED = (
    "aten::_grouped_mm",
    "transformers::grouped_mm_fallback",
    "transformers::grouped_mm_fallback_backward",
)
COLLECTIVE = ("c10d", "_c10d_functional", "_c10d_functional_autograd")  # libraries of operators
WRITES = tuple(present("index_put _unsafe_index_put"))
Run = Callable[[list[Any]], Sequence[Any]]  # of a list of arguments, which it empties
Apart = Callable[[Node], bool]  # whether an operator runs as it is


@frozen
class Stage:
    """A part of a graph, and the names of what it takes from others and gives them."""

    run: Run
    takes: tuple[str, ...]
    gives: tuple[str, ...]


def of_host(node: Node) -> bool:
    """Whether the host does an operator, or, with an effect, calls what reads its result."""
    if node.target in EFFECTS:
        return True
    args, kwargs = map_arg((node.args, node.kwargs), lambda x: x.meta.get("val"))
    return by_design(node.target, *args, **kwargs)


def depends(node: Node) -> bool:
    """Whether what an operator runs, or how much it gives or writes, depends on elements, or on other processes."""
    if node.target in BRANCHES or node.meta.get("unbacked_bindings"):  # numbers that only a run tells
        return True
    if not isinstance(node.target, OpOverload):
        return False
    if node.target._schema.name in GROUPED or node.target.namespace in COLLECTIVE:
        return True
    listed = [
        k for k, a in enumerate(node.target._schema.arguments) if str(a.type) == "List[Optional[Tensor]]"
    ]
    if not listed:
        return torch.Tag.dynamic_output_shape in node.target.tags
    positions: Any = node.args[listed[0]]
    return any(
        x is not None and x.meta["val"].dtype in (torch.bool, torch.uint8) for x in positions
    ) and not _is_under_a_mask(node, positions)


def _is_under_a_mask(node: Node, positions: Sequence[Node | None]) -> bool:
    """Whether one value is written wherever a mask of the first axes says, however often that is."""
    if node.target not in WRITES or positions[0] is None or any(x is not None for x in positions[1:]):
        return False
    values: Any = node.args[2]
    mask = positions[0].meta["val"]
    accumulates = bool(node.args[3]) if len(node.args) > 3 else bool(node.kwargs.get("accumulate"))
    return mask.dtype is torch.bool and mask.ndim > 0 and not accumulates and _is_one(values.meta["val"])


def _is_one(x: torch.Tensor) -> bool:
    """Whether it is known that a tensor has one element."""
    return all(isinstance(n, int) and n == 1 for n in x.shape)


def emptying(function: Callable[..., Any]) -> Run:
    """A function of a list of its arguments, which it empties."""

    def run(args: list[Any]) -> Any:
        given = tuple(args)
        args.clear()
        return function(*given)

    run._boxed_call = True  # PyTorch asks whether arguments come as a list  # pyright: ignore
    return run


def any_apart(graph: GraphModule, apart: Apart) -> bool:
    """Whether some of a graph's operators cannot be compiled."""
    return any(node.op == "call_function" and apart(node) for node in graph.graph.nodes)


def staged(graph: GraphModule, compiled: Callable[[GraphModule], Run], apart: Apart) -> Run:
    """A graph as a function of a list of its arguments, its stages but for operators apart compiled."""
    (results,) = graph.graph.output_node().args
    asked = {x.name for x in results if isinstance(x, Node)}  # pyright: ignore
    given = [node.name for node in graph.graph.find_nodes(op="placeholder")]
    stages = [_stage(graph, nodes, compiled, apart) for nodes in _parts(graph, apart)]
    last = {name: k for k, stage in enumerate(stages) for name in stage.takes}

    def run(args: list[Any]) -> list[Any]:
        known = dict(zip(given, args, strict=True))
        args.clear()
        for k, stage in enumerate(stages):
            taken = [known[name] for name in stage.takes]
            for name in stage.takes:
                if last[name] == k and name not in asked:
                    del known[name]
            known.update(zip(stage.gives, stage.run(taken), strict=True))
        return [known[x.name] if isinstance(x, Node) else x for x in results]  # pyright: ignore

    run._boxed_call = True  # PyTorch asks whether arguments come as a list  # pyright: ignore
    return run


def _parts(graph: GraphModule, apart: Apart) -> list[list[Node]]:
    """Operators in turn: compiled, apart, and so on. One of several results is where they are."""
    parts: list[list[Node]] = [[]]
    place: dict[Node, int] = {}
    for node in graph.graph.nodes:
        if node.op != "call_function":
            continue
        whole = place.get(node.args[0]) if node.target is operator.getitem else None
        if whole is None and apart(node) != bool((len(parts) - 1) % 2):
            parts.append([])
        place[node] = len(parts) - 1 if whole is None else whole
        parts[place[node]].append(node)
    return [part for part in parts if part]


def _stage(
    graph: GraphModule, nodes: list[Node], compiled: Callable[[GraphModule], Run], apart: Apart
) -> Stage:
    inside = set(nodes)
    constants = [x for node in nodes for x in node.all_input_nodes if x.op == "get_attr"]
    takes = dict.fromkeys(x for node in nodes for x in node.all_input_nodes if x not in inside)
    takes = [x for x in takes if x.op != "get_attr"]
    gives = [node for node in nodes if any(user not in inside for user in node.users)]
    part, known = Graph(), {}
    for x in takes:
        known[x] = part.placeholder(x.name)
        known[x].meta = dict(x.meta)
    for node in (*dict.fromkeys(constants), *nodes):
        known[node] = part.node_copy(node, known.__getitem__)
    part.output(tuple(known[node] for node in gives))
    module = GraphModule(graph, part)
    run = emptying(module.forward) if any_apart(module, apart) else compiled(module)
    return Stage(run, tuple(x.name for x in takes), tuple(x.name for x in gives))
