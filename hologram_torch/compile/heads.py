"""Heads that share keys, in graphs: PyTorch repeats keys and values for each, and attention needs no copies."""

from __future__ import annotations

from typing import Any

import torch

from hologram_torch.kernels.operators import known

aten = torch.ops.aten
ATTENTION = known("_scaled_dot_product_fused_attention_overrideable")
SHAPED = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)


def folded(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph with attention to keys and values as they are, where it was to copies of them."""
    changed = False
    if ATTENTION is None:
        return graph
    for node in graph.graph.find_nodes(op="call_function", target=ATTENTION):
        changed |= _fold(graph.graph, node)
    if changed:
        graph.recompile()
    return graph


def _fold(graph: torch.fx.Graph, node: torch.fx.Node) -> bool:
    query, key, value = node.args[:3]
    own = _repeated(key), _repeated(value)
    if None in own or own[0].meta["val"].shape[1] != own[1].meta["val"].shape[1]:  # pyright: ignore
        return False
    node.args = (query, *own, *node.args[3:])
    for left in dict.fromkeys((key, value)):  # which may be one
        _erase(graph, left)
    return True


def _repeated(x: Any) -> torch.fx.Node | None:
    """Of which node (batch, own, length, width) each of the second axis is copied several times in a row."""
    shaped, copied, expanded = x, None, None
    if shaped.target in SHAPED:
        copied = shaped.args[0]
        expanded = copied.args[0] if copied.target is aten.clone.default else copied
    if expanded is None or expanded.target is not aten.expand.default:
        return None
    unsqueezed = expanded.args[0]
    if unsqueezed.target is not aten.unsqueeze.default or unsqueezed.args[1] not in (2, -3):
        return None
    source = unsqueezed.args[0]
    before, wide, after = (n.meta["val"].shape for n in (source, expanded, shaped))
    if len(before) != 4 or len(wide) != 5 or len(after) != 4:
        return None
    same = tuple(wide[:2]) == tuple(before[:2]) and tuple(wide[3:]) == tuple(before[2:])
    return source if same and tuple(after) == (wide[0], wide[1] * wide[2], *wide[3:]) else None


def _erase(graph: torch.fx.Graph, node: Any) -> None:
    """Takes out what nobody uses any more, and what that alone used."""
    while isinstance(node, torch.fx.Node) and node.op == "call_function" and not node.users:
        before = node.args[0]
        graph.erase_node(node)
        node = before
