"""Why a function is traced again and again: counted, and said once where it does not end."""

from __future__ import annotations

import functools
import inspect
import reprlib
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hologram.frontend.jit.number import PACKAGE, caller
from hologram.frontend.jit.signature import LEAVES, Call, is_number
from hologram.frontend.tree import branches

MANY = 8  # retraces for one reason, after which it is said
KEPT = 8  # traces that a new one is compared with
SHOWN = 8  # of the values that led to them

Reason = tuple[str, str]  # an argument, and what of it has a say in the trace
TREE: Reason = ("", "structure")
REMEDIES: Mapping[str, str] = {
    "value": (
        "It is asked for{where}. A number that only enters arithmetic is data, and never leads to another trace: leave "
        "float() and int() out, write np.sqrt(x) for math.sqrt(x), and hg.where or hg.minimum for `if` and min(). "
        "Where it is an index, use hg.take, or a mask such as hg.arange(n) < {name}; where it is a size, pad to a few."
    ),
    "fixed value": (
        "What is neither a tensor nor a number is part of the trace, and told apart by ==. Pass one that is equal to "
        "the last, and what changes in it as a tensor or a number."
    ),
    "shape": "Pad it to a few shapes, and mask the rest.",
    "dtype": "Convert it before the call.",
    "layout": "Pass x.contiguous(), or a tensor of its own instead of a view of another.",
    "structure": "Pass the same keys, and as many leaves, at every call.",
}


class Retraces:
    """The traces of one function, by what of its arguments called for them."""

    def __init__(self, who: str) -> None:
        self.who = who
        self._recent: deque[dict[Reason, str]] = deque(maxlen=KEPT)
        self._counts: Counter[Reason] = Counter()
        self._values: dict[Reason, deque[str]] = {}
        self._said = False

    def note(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        call: Call,
        asked: Mapping[int, str],
    ) -> None:
        """Counts a trace in which the values of the numbers `asked` had a say; warns once of many for one reason."""
        written = function.func if isinstance(function, functools.partial) else function
        if self._said or getattr(written, "__module__", "").startswith(PACKAGE):
            return  # of hologram's own functions nobody else can change a thing
        named = list(_named(function, args, kwargs))
        facts = dict(_facts(named, call, asked))
        reasons = min((_apart(facts, other) for other in self._recent), key=len, default=())
        self._recent.append(facts)
        for reason in reasons:
            self._counts[reason] += 1
            self._values.setdefault(reason, deque(maxlen=SHOWN)).append(facts.get(reason, ""))
        many = next((reason for reason in reasons if self._counts[reason] >= MANY), None)
        if many is not None:
            self._said = True
            numbers = [name for name, leaf in named if is_number(leaf)]
            where = asked.get(numbers.index(many[0]), "") if many[1] == "value" else ""
            self._warn(many, f" in {where}" if where else "")

    def _warn(self, reason: Reason, where: str) -> None:
        name, what = reason
        named = f"argument {name}" if name else "arguments"
        values = "" if reason is TREE else f": {', '.join(self._values[reason])}"
        warnings.warn(
            f"hg.jit: {self.who} was compiled {self._counts[reason]} more times, because the {what} of its "
            f"{named} changes{values}. {REMEDIES[what].format(name=name, where=where)}",
            RuntimeWarning,
            stacklevel=caller()[1],
        )


def _apart(facts: Mapping[Reason, str], others: Mapping[Reason, str]) -> Sequence[Reason]:
    """What tells two traces apart."""
    if {name for name, _ in facts} != {name for name, _ in others}:
        return (TREE,)
    return [reason for reason in facts if reason in others and facts[reason] != others[reason]]


def _facts(
    named: Sequence[tuple[str, Any]], call: Call, asked: Mapping[int, str]
) -> Iterator[tuple[Reason, str]]:
    """What of the arguments has a say in the trace, and how it is now."""
    tensors, number = iter(call.tensors), 0
    for name, leaf in named:
        if isinstance(leaf, LEAVES):
            layout = next(tensors).layout
            yield (name, "shape"), str(layout.shape)
            yield (name, "dtype"), str(layout.dtype)
            if not layout.is_contiguous or layout.offset:
                yield (name, "layout"), f"strides {layout.strides} from element {layout.offset}"
        elif is_number(leaf):
            yield (name, "dtype"), type(leaf).__name__
            if number in asked:
                yield (name, "value"), reprlib.repr(leaf)
            number += 1
        else:
            yield (name, "fixed value"), reprlib.repr(leaf)


def _named(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """The leaves of the arguments in the order of a call, as one would write them."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of C
        parameters = []
    one = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in parameters if p.kind in one]
    for k, tree in enumerate(args):
        yield from _leaves(names[k] if k < len(names) else f"number {k}", tree)
    for name in sorted(kwargs):
        yield from _leaves(name, kwargs[name])


def _leaves(name: str, tree: Any) -> Iterator[tuple[str, Any]]:
    children = branches(tree)
    if children is None:
        yield name, tree
        return
    for key, branch in children.items():
        yield from _leaves(f"{name}[{key!r}]", branch)
