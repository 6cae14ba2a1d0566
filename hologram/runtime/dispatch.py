"""The one point that everything which touches memory passes: done at once, or recorded while a function is traced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

Request = Callable[..., Any]


class Tracer(Protocol):
    """Takes the requests of a thread that traces a function for an executor."""

    executor: Any

    @property
    def root(self) -> Tracer | None:
        """Who records what it passes on, to be done later; None if that is done at once."""
        ...

    def take(self, request: Request, action: str, arguments: tuple[Any, ...]) -> Any:
        """Records what a request asks for; raises TraceError for one that a trace cannot record."""
        ...


class Dispatch:
    """What every executor is at its base: requests pass `dispatch`, whoever makes them.

    `tracers` holds, by thread and for all executors together, who records that thread's requests. It is empty nearly
    always, so that asking costs nothing. Requests are functions, known to tracers as such; those that work for a
    tracer call them directly, or under `untraced`.
    """

    tracers: ClassVar[dict[int, Tracer]] = {}

    def dispatch(self, request: Request, action: str, *arguments: Any) -> Any:
        """Does what is asked for, or hands it to the thread's tracer; `action` names it in errors."""
        if self.tracers and (tracer := self.tracers.get(threading.get_ident())) is not None:
            return tracer.take(request, action, arguments)
        return request(*arguments)

    @property
    def tracer(self) -> Tracer | None:
        """Who records the calling thread's requests."""
        return tracing()

    @property
    def differentiated(self) -> bool:
        """Whether derivatives are taken of what the calling thread computes."""
        tracer = tracing()
        return tracer is not None and tracer.root is not tracer


def tracing() -> Tracer | None:
    """Who records the calling thread's requests, of whatever executor."""
    return Dispatch.tracers.get(threading.get_ident()) if Dispatch.tracers else None


def deferred() -> bool:
    """Whether this thread's requests are recorded, so that no element of a result is known yet."""
    tracer = tracing()
    return tracer is not None and tracer.root is not None


@contextmanager
def traced_by(tracer: Tracer | None) -> Iterator[None]:
    """Hands the requests of this thread to a tracer, or to none."""
    thread, tracers = threading.get_ident(), Dispatch.tracers
    before = tracers.pop(thread, None)
    if tracer is not None:
        tracers[thread] = tracer
    try:
        yield
    finally:
        tracers.pop(thread, None)
        if before is not None:
            tracers[thread] = before
