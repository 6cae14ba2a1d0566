"""Arguments and results as trees: tuples, lists, named tuples and dicts, with leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Leaf = Callable[[Any], Any]


def mapped(tree: Any, leaf: Leaf) -> Any:
    """The tree with every leaf replaced by what the function makes of it, in order; dicts by their sorted keys."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind(mapped(branch, leaf) for branch in tree)
    if kind is dict:
        found = {key: mapped(tree[key], leaf) for key in ordered(tree)}
        return {key: found[key] for key in tree}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return kind(*(mapped(branch, leaf) for branch in tree))
    return leaf(tree)


def ordered(tree: dict[Any, Any]) -> list[Any]:
    """A dict's keys, by type and value, so that the order they were entered in has no say."""
    return sorted(tree, key=lambda key: (type(key).__name__, key))
