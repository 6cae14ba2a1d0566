"""Arguments and results as trees: tuples, lists, named tuples, dicts, dataclasses and what else says how it branches.

A class that says so has `__branches__`, a dict of what it is made of, and `__assembled__`, which makes one of such a
dict; or somebody registered it.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

Leaf = Callable[[Any], Any]
Flatten = Callable[[Any], tuple[Iterable[Any], Any]]
Unflatten = Callable[[Any, Iterable[Any]], Any]
STATIC = "static"  # in the metadata of a dataclass's field: it is no branch, but part of the structure
PACKAGE = __name__.partition(".")[0]
_registered: dict[type, tuple[Flatten, Unflatten]] = {}


def register_pytree_node(nodetype: type, flatten_func: Flatten, unflatten_func: Unflatten) -> None:
    """Has objects of a class be trees, in arguments and results of hg.jit, hg.grad, loops and so on.

        hg.register_pytree_node(Pair, lambda p: ((p.a, p.b), p.name), lambda name, parts: Pair(*parts, name))

    Args:
        nodetype: the class; those of its subclasses are registered by themselves.
        flatten_func: gives what it is made of, and whatever else tells one from another, which is hashable.
        unflatten_func: makes one of that and of such parts.
    """
    if not isinstance(nodetype, type):
        raise TypeError(f"register_pytree_node: a class is needed, got {nodetype!r}")
    if nodetype in _registered:
        raise ValueError(f"register_pytree_node: {nodetype.__name__} is registered already")
    _registered[nodetype] = flatten_func, unflatten_func


@lru_cache(maxsize=1024)
def _fields(kind: type) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Of a dataclass the names of fields that are branches, and of those that are static; what is ours is a leaf."""
    if not dataclasses.is_dataclass(kind) or kind.__module__.startswith(PACKAGE):
        return None
    fields = dataclasses.fields(kind)
    static = tuple(f.name for f in fields if f.metadata.get(STATIC))
    return tuple(f.name for f in fields if f.name not in static), static


def fixed(tree: Any) -> Any:
    """What tells apart trees that branch alike: static fields of dataclasses, what a registered class says."""
    if type(tree) in _registered:
        return _registered[type(tree)][0](tree)[1]
    fields = _fields(type(tree))
    return None if fields is None else tuple([getattr(tree, name) for name in fields[1]])


def branches(tree: Any) -> dict[Any, Any] | None:
    """What a tree branches into, by key or number, in an order that equal trees share; None for a leaf."""
    if isinstance(tree, dict):
        return {key: tree[key] for key in ordered(tree)}
    if type(tree) in (tuple, list) or (isinstance(tree, tuple) and hasattr(tree, "_fields")):
        return dict(enumerate(tree))
    own = getattr(tree, "__branches__", None)
    if own is not None:
        return own()
    kind = type(tree)
    if kind in _registered:
        return dict(enumerate(_registered[kind][0](tree)[0]))
    fields = _fields(kind)
    return None if fields is None else {name: getattr(tree, name) for name in fields[0]}


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
    if kind in _registered:
        flatten, unflatten = _registered[kind]
        return unflatten(flatten(tree)[1], tuple(children.values()))
    if _fields(kind) is not None:
        whole = copy.copy(tree)  # as it is, whatever its own __init__ does
        for name, branch in children.items():
            object.__setattr__(whole, name, branch)
        return whole
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
