"""What may watch the launches of an executor: profiles, and the printing of HOLOGRAM_DEBUG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Kernel, Launch, Span
from hologram.machine.plan import Step


@frozen(slots=True)
class Subject:
    """What a launch is, whenever it runs."""

    kernel: str  # the entry point
    grid: tuple[int, ...]  # elements for a Program, workgroups for a Tile
    workgroups: int | None  # None: the device has no such thing
    bytes_bound: int
    schedule: str  # how it maps to threads


@frozen(slots=True)
class LaunchTime:
    """One launch. Times are nanoseconds since the profile began.

    The host enqueued it from `enqueued_ns` to `returned_ns`, on the thread of that number; the device ran it from
    `start_ns` to `end_ns`.
    """

    subject: Subject
    thread: int
    enqueued_ns: int
    returned_ns: int
    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


class Observer(Protocol):
    """Sees every launch while it watches; see Launches.watch."""

    def observed(self, subject: Subject, launch: Launch) -> Launch:
        """The launch, with whatever is to be done at each call around it."""
        ...


def subject(step: Step, kernel: Kernel, spans: Sequence[Span]) -> Subject:
    """What the launch of a step is."""
    return Subject(
        step.kernel.label,
        step.grid,
        kernel.workgroups(step.grid),
        sum(nbytes for _, nbytes in set(spans)),  # memory that is bound twice is counted once
        kernel.schedule(spans, step.scalars, step.grid),
    )
