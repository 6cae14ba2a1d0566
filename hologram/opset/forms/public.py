"""What Python shows of an operation: its signature and its documentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Sequence
from itertools import takewhile
from typing import Any, ClassVar

from hologram.opset.forms.further import UNSAID


def known(places: Sequence[str], declared: Container[str]) -> tuple[str, ...]:
    """The arguments that can be given by place: up to the first that only NumPy has."""
    return tuple(takewhile(lambda name: name in declared or name in UNSAID, places))


class PublicSignature:
    """`operation.__signature__`, by which `help`, notebooks and wrappers know a callable's arguments."""

    def __get__(self, operation: Any, kind: type) -> inspect.Signature:
        if operation is None:
            raise AttributeError("__signature__")  # the class's own is its constructor's
        kinds = inspect.Parameter
        declared = operation.signature.parameters
        parameters: list[inspect.Parameter] = []
        kind_now = kinds.POSITIONAL_OR_KEYWORD
        by_place = known(operation.argument_order, declared)
        for name in (*by_place, *(n for n in operation.attributes if n not in by_place)):
            if name not in by_place and by_place != (*operation.operands, *operation.attributes):
                kind_now = kinds.KEYWORD_ONLY
            default = declared[name].default if name in declared else UNSAID[name]
            if default is kinds.empty and parameters and parameters[-1].default is not kinds.empty:
                kind_now = kinds.KEYWORD_ONLY  # after arguments that may be left out
            parameters.append(kinds(name, kind_now, default=default))
        if not operation.operands:
            parameters.append(kinds("device", kinds.KEYWORD_ONLY, default=None))
        return inspect.Signature(parameters)


class PublicText:
    """`operation.__doc__`, written when it is asked for: by description.py, which stands above, and says so."""

    write: ClassVar[Callable[[Any], str]]

    def __init__(self, own: str | None) -> None:
        self.own = own

    def __get__(self, operation: Any, kind: type) -> str | None:
        return self.own if operation is None else PublicText.write(operation)
