"""Streams, events and graphs of the emulated card: work waits in a queue until somebody waits for it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.backends.emulated.cuda.kernels import Kernel
from tests.backends.emulated.cuda.memory import Misuse

DEPTH = 1024  # operations that wait in a stream: who enqueues one more waits for the first, as on a card


@dataclass(eq=False)
class Context:
    """A primary context, of `ordinal`'s card, held `count` times. `error` is what a crashed kernel left."""

    ordinal: int
    count: int = 0
    error: str = ""
    handle: int = 0
    defaults: dict[int, Stream] = field(default_factory=dict)


@dataclass
class Work:
    """One operation of a stream, and the handles that must live until it is done."""

    run: Callable[[], None]
    uses: tuple[int, ...] = ()


@dataclass(eq=False)
class Stream:
    context: Context
    queue: deque[Work] = field(default_factory=deque)
    done: int = 0

    @property
    def end(self) -> int:
        """How many operations there were so far."""
        return self.done + len(self.queue)

    def add(self, run: Callable[[], None], *uses: int) -> None:
        if len(self.queue) >= DEPTH:
            self.drain(self.done + 1)
        self.queue.append(Work(run, uses))

    def drain(self, until: int | None = None) -> None:
        """Does the operations enqueued before place `until`."""
        last = self.end if until is None else until
        while self.done < last:
            work = self.queue.popleft()
            self.done += 1
            work.run()


@dataclass(eq=False)
class Event:
    context: Context
    timing: bool
    stream: Stream | None = None  # that it was last recorded in
    place: int = 0
    passed_s: float | None = None

    def record(self, stream: Stream) -> None:
        self.stream, self.place, self.passed_s = stream, stream.end + 1, None

        def pass_(place: int = self.place) -> None:
            if self.place == place and self.stream is stream:
                self.passed_s = time.perf_counter()

        stream.add(pass_)

    @property
    def passed(self) -> bool:
        return self.stream is None or self.passed_s is not None


@dataclass(eq=False)
class Launch:
    """A kernel with its parameters, as the driver copied them."""

    kernel: Kernel
    library: int
    parameters: tuple[bytes, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int  # beside what the kernel declares


@dataclass(eq=False)
class Graph:
    nodes: dict[int, tuple[Launch, tuple[int, ...]]] = field(default_factory=dict)

    def ordered(self) -> list[Launch]:
        """The launches in the order that shows most of what is missing: the latest first, where none is prescribed."""
        left, order = dict(self.nodes), []
        while left:
            ready = [k for k, (_, before) in left.items() if not set(before) & set(left)]
            if not ready:
                raise Misuse("a graph's nodes wait for one another")
            order.append(left.pop(ready[-1])[0])
        return order
