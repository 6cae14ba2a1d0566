"""Jitted functions that are differentiated from outside: they run compiled, and so do their pullbacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hologram.frontend.gradient.tape import ClosedOver as ClosedOver
from hologram.frontend.gradient.tape import Tape
from hologram.frontend.gradient.transforms import on_tape, vjp
from hologram.frontend.tree import leaves, mapped
from hologram.runtime.dispatch import traced_by, tracing

Function = Callable[..., Any]


def followed_alone() -> Tape | None:
    """The tape of this thread, if what it passes on is done and not recorded."""
    tape = tracing()
    return tape if isinstance(tape, Tape) and tape.root is None else None


def differentiated(
    tape: Tape,
    run: Function,
    who: str,
    pullback_of: Callable[[tuple[bool, ...]], Function],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """A compiled function called under a tape; `pullback_of` compiles a pullback for the leaves that are followed."""
    given = (tuple(args), dict(kwargs))
    followed = tuple(tape.follows(x) for x in leaves(given))
    plain = tape.beneath(given)
    with traced_by(tape.outer):
        result = run(*plain[0], **plain[1])
    return on_tape(tape, who, given, result, lambda cotangent: pullback_of(followed)(cotangent, plain))


def pullback(function: Function, followed: Sequence[bool]) -> Function:
    """From cotangents of results and the arguments to the cotangents of those leaves that are followed.

    It computes the function once more instead of keeping what is between.
    """

    def back(cotangent: Any, given: Any) -> list[Any]:
        def of_chosen(*chosen: Any) -> Any:
            rest, flags = iter(chosen), iter(followed)
            args, kwargs = mapped(given, lambda x: next(rest) if next(flags) else x)
            return function(*args, **kwargs)

        chosen = [x for x, follow in zip(leaves(given), followed, strict=True) if follow]
        cotangents = iter(vjp(of_chosen, *chosen)[1](cotangent))
        return [next(cotangents) if follow else None for follow in followed]

    return back
