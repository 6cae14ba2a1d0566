"""The form of arguments and results: trees whose leaves are tensors, numbers and values that are fixed.

A file has no classes: a named tuple is written as a tuple, what else branches by name (a dataclass, packed weights) as
a dict. A call may give either: what counts is how it branches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.errors import TraceError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.frontend.jit.compiled import shown
from hologram.frontend.jit.explain import spelled
from hologram.frontend.jit.number import KINDS, TracedNumber, plain
from hologram.frontend.jit.signature import LEAVES
from hologram.frontend.saved.values import NUMPY, kept_to, layout_from, layout_to, value_from, value_to
from hologram.frontend.tensor import Tensor, as_tensor
from hologram.frontend.tree import branches, fixed
from hologram.machine.layout import Layout
from hologram.runtime.launches.validation import cache_key
from hologram.runtime.memory.buffer import Buffer

KIND_NAMES = {kind.__name__: kind for kind in KINDS}


@frozen
class OfTensor:
    """A tensor: of an argument its layout; of results which output it is, seen through a layout."""

    layout: Layout
    output: int = -1

    def __str__(self) -> str:
        return spelled(self.layout)


@frozen
class OfNumber:
    """A number of each call, like the one that is `known`, or that one alone; of results which one it is."""

    known: Any
    fixed: bool = False
    output: int = -1

    def __str__(self) -> str:
        return repr(self.known) if self.fixed else type(self.known).__name__


@frozen
class OfValue:
    """A value that is fixed."""

    value: Any

    def __str__(self) -> str:
        return repr(self.value)


@frozen
class OfBranches:
    """A tuple, a list or a dict of forms by key; `fixed` tells apart what branches alike."""

    kind: str
    items: tuple[tuple[Any, Form], ...]
    fixed: Any = None

    def __str__(self) -> str:
        if self.kind == "dict":
            return "{" + ", ".join(f"{key!r}: {form}" for key, form in self.items) + "}"
        parts = ", ".join(str(form) for _, form in self.items)
        if self.kind == "list":
            return f"[{parts}]"
        return f"({parts},)" if len(self.items) == 1 else f"({parts})"


Form = OfTensor | OfNumber | OfValue | OfBranches
BRANCHES: dict[str, Callable[[dict[Any, Any]], Any]] = {
    "tuple": lambda made: tuple(made.values()),
    "list": lambda made: list(made.values()),
    "dict": dict,
}


def form_of(tree: Any, leaf: Callable[[Any], Form]) -> Form:
    """The form of a tree, whose leaves have the form that `leaf` gives; raises TraceError for keys of other types."""
    children = branches(tree)
    if children is None:
        return leaf(tree)
    numbered = list(children) == list(range(len(children)))
    kind = "list" if type(tree) is list else "tuple" if numbered and not isinstance(tree, dict) else "dict"
    for key in children:
        if type(key) not in (str, int, bool):
            raise TraceError(
                f"save_program: keys of dicts are saved if they are text or integers, got {key!r}"
            )
    items = tuple((key, form_of(branch, leaf)) for key, branch in children.items())
    return OfBranches(kind, items, fixed(tree))


def form_to(form: Form) -> Any:
    """A form as JSON."""
    if isinstance(form, OfTensor):
        return {"tensor": layout_to(form.layout), "output": form.output}
    if isinstance(form, OfNumber):
        return {"number": kept_to(form.known), "fixed": form.fixed, "output": form.output}
    if isinstance(form, OfValue):
        return {"value": kept_to(form.value)}
    items = [[key, form_to(each)] for key, each in form.items]
    return {form.kind: items, "fixed": value_to(form.fixed)}


def form_from(given: Any) -> Form:
    """The form that is written so; raises ValueError and its like."""
    if "tensor" in given:
        return OfTensor(layout_from(given["tensor"]), _integer(given["output"]))
    if "number" in given:
        known = value_from(given["number"])
        if type(known) not in KINDS:
            raise ValueError(f"a number must be one of {' '.join(KIND_NAMES)}")
        return OfNumber(known, given["fixed"] is True, _integer(given["output"]))
    if "value" in given:
        return OfValue(value_from(given["value"]))
    (kind,) = given.keys() - {"fixed"}
    items = given[kind] if kind in BRANCHES else None
    if not isinstance(items, list):
        raise ValueError(f"a form is a tensor, number, value, {', '.join(BRANCHES)}")
    made: dict[Any, Form] = {}
    for key, form in items:
        if type(key) not in (str, int, bool) or key in made:
            raise ValueError("keys are texts or integers, each once")
        made[key] = form_from(form)
    return OfBranches(kind, tuple(made.items()), value_from(given["fixed"]))


def _integer(x: Any) -> int:
    if type(x) is not int or not -1 <= x < 1 << 31:
        raise ValueError("the number of an output is needed")
    return x


def leaves_of(form: Form) -> list[Any]:
    """The leaves in order."""
    return (
        [leaf for _, each in form.items for leaf in leaves_of(each)]
        if isinstance(form, OfBranches)
        else [form]
    )


class Unlike(Exception):
    """How what is given is not of a form: `name` is the argument's, and `keys` lead to where in it, from within."""

    def __init__(self, wanted: Any, got: str) -> None:
        super().__init__(f"must be {wanted}, got {got}")
        self.name = ""
        self.keys: list[Any] = []

    def __str__(self) -> str:
        keys = "".join(f"[{key!r}]" for key in reversed(self.keys))
        return f"{self.name}{keys} {self.args[0]}"


def taken(form: Form, given: Any, tensors: list[Any], numbers: list[Any]) -> None:
    """Puts the tensors, arrays and numbers of an argument into lists, in order; raises Unlike."""
    if isinstance(form, OfTensor):
        own = type(given) is Tensor and given.layout is form.layout
        tensors.append(given if own else _tensor(form, given))
    elif isinstance(form, OfNumber):
        x = plain(given) if isinstance(given, TracedNumber) else given
        if type(x) is not type(form.known) and isinstance(x, np.generic) and x.dtype.name in NUMPY:
            x = NUMPY[x.dtype.name].type(x)  # of those that C calls otherwise the one that a file has
        if type(x) is not type(form.known) or (form.fixed and cache_key(x) != cache_key(form.known)):
            raise Unlike(form, _kind(given))
        numbers.append(x)
    elif isinstance(form, OfValue):
        if type(given) is not type(form.value) or cache_key(given) != cache_key(form.value):
            raise Unlike(form, _kind(given))
    else:
        children, told = branches(given), fixed(given)
        if children is None or len(children) != len(form.items) or (told is not None and told != form.fixed):
            raise Unlike(form, _kind(given))
        for key, each in form.items:
            if key not in children:
                raise Unlike(form, _kind(given))
            try:
                taken(each, children[key], tensors, numbers)
            except Unlike as unlike:
                unlike.keys.append(key)
                raise


def _tensor(form: OfTensor, given: Any) -> Any:
    if not isinstance(given, LEAVES):
        raise Unlike(form, _kind(given))
    x: Any = as_tensor(given) if isinstance(given, Buffer) else given
    if isinstance(x, Tensor) and x.layout is form.layout:
        return x
    try:
        dtype: Any = dtypes.dtype(x.dtype)
    except UnsupportedDType:  # an array of anything else
        dtype = x.dtype
    if dtype is not form.layout.dtype or tuple(x.shape) != form.layout.shape:
        sizes = ",".join(map(str, x.shape))
        raise Unlike(form, f"{dtype}[{sizes}]" if sizes else str(dtype))
    return x


def _kind(given: Any) -> str:
    """What was given, with its value where that is short."""
    short = given is None or type(given) in KINDS or isinstance(given, (str, bool))
    return f"{type(given).__name__} {given!r:.60}" if short else type(given).__name__


def as_entered(form: Form, tree: Any) -> Form:
    """The form of a tree with the keys of dicts in the order in which they were entered."""
    if not isinstance(form, OfBranches):
        return form
    children = branches(tree)
    assert children is not None
    items = {key: as_entered(each, children[key]) for key, each in form.items}
    order = tree if isinstance(tree, dict) else items
    return OfBranches(form.kind, tuple((key, items[key]) for key in order), form.fixed)


def making(
    form: Form, see: Callable[[int, Layout], Callable[[Sequence[Any]], Any]] = shown
) -> Callable[[Sequence[Any]], Any]:
    """What makes results of a form from outputs: buffers, or what `see` sees as tensors, then numbers of the call."""
    if isinstance(form, OfTensor):
        return see(form.output, form.layout)
    if isinstance(form, OfNumber):
        return lambda outputs: outputs[form.output]
    if isinstance(form, OfValue):
        return lambda outputs: form.value
    parts = [(key, making(each, see)) for key, each in form.items]
    whole = BRANCHES[form.kind]
    return lambda outputs: whole({key: part(outputs) for key, part in parts})
