"""Arguments and results as trees: tuples, lists, named tuples, dicts and what else says how it branches, with leaves.

A class that says so has `__branches__`, a dict of what it is made of, and `__assembled__`, which makes one of such a
dict.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

Leaf = Callable[[Any], Any]


def branches(tree: Any) -> dict[Any, Any] | None:
    """What a tree branches into, by key or number, in an order that equal trees share; None for a leaf."""
    if isinstance(tree, dict):
        return {key: tree[key] for key in ordered(tree)}
    if type(tree) in (tuple, list) or (isinstance(tree, tuple) and hasattr(tree, "_fields")):
        return dict(enumerate(tree))
    own = getattr(tree, "__branches__", None)
    return None if own is None else own()


def mapped(tree: Any, leaf: Leaf) -> Any:
    """The tree with every leaf replaced by what the function makes of it, in the order of branches."""
    children = branches(tree)
    if children is None:
        return leaf(tree)
    return _assembled(tree, {key: mapped(branch, leaf) for key, branch in children.items()})


def maker(tree: Any, leaf: Callable[[Any], Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """A function that makes the tree anew: what `leaf` gives for each leaf says what then stands in its place."""
    children = branches(tree)
    if children is None:
        return leaf(tree)
    parts = [(key, maker(branch, leaf)) for key, branch in children.items()]
    return lambda given: _assembled(tree, {key: part(given) for key, part in parts})


def _assembled(tree: Any, children: dict[Any, Any]) -> Any:
    """A tree like this one, of other branches."""
    kind = type(tree)
    if kind is dict:
        return {key: children[key] for key in tree}  # in their order
    if isinstance(tree, dict):
        whole = copy.copy(tree)  # of its own type
        whole.update(children)
        return whole
    if hasattr(kind, "__assembled__"):
        return kind.__assembled__(children)
    return kind(children.values()) if kind in (tuple, list) else kind(*children.values())


def ordered(tree: dict[Any, Any]) -> list[Any]:
    """A dict's keys in an order in which the one they were entered in has no say."""
    try:
        return sorted(tree)
    except TypeError:  # keys of several types
        pass
    try:
        return sorted(tree, key=lambda key: (type(key).__name__, key))
    except TypeError:  # keys that do not compare
        return sorted(tree, key=lambda key: (type(key).__name__, repr(key)))


def leaves(tree: Any) -> list[Any]:
    """The leaves, in the order of branches."""
    children = branches(tree)
    return [tree] if children is None else [each for branch in children.values() for each in leaves(branch)]


def paths(tree: Any, root: str = "") -> list[str]:
    """How each leaf is reached, in the order of branches, as Python writes it."""
    children = branches(tree)
    if children is None:
        return [root]
    named = hasattr(tree, "_fields") or not isinstance(tree, (dict, list, tuple))
    fields = getattr(tree, "_fields", None)
    return [
        path
        for key, branch in children.items()
        for path in paths(branch, f"{root}.{fields[key] if fields else key}" if named else f"{root}[{key!r}]")
    ]


def same_structure(tree: Any, other: Any) -> bool:
    """Whether two trees branch alike."""
    here, there = branches(tree), branches(other)
    if here is None or there is None:
        return here is there
    return list(here) == list(there) and all(same_structure(here[k], there[k]) for k in here)
