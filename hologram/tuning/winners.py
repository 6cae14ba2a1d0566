"""The choices that were measured on a device, kept on disk and looked up by plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hologram import lazy
from hologram.choices import Candidate, Problem
from hologram.device import DeviceInfo

if TYPE_CHECKING:
    from hologram import store
    from hologram.tuning import records
else:  # needed to compute, not to open
    store, records = lazy.module("hologram.store"), lazy.module("hologram.tuning.records")

FORMAT = "1"  # of the records


class Winners:
    """The measured choice for a problem, as plans are handed it; looked up on disk once.

    `missed` hears of problems that have none.
    """

    def __init__(self, info: DeviceInfo, missed: Callable[[Problem], None] | None = None) -> None:
        self.info = info
        self.missed = missed
        self._known: dict[Problem, Candidate | None] = {}

    def __call__(self, problem: Problem) -> Candidate | None:
        if problem not in self._known:
            self._known[problem] = found = candidate(records.get(self._key(problem)))
            if found is None and self.missed is not None:
                self.missed(problem)
        return self._known[problem]

    def put(self, problem: Problem, winner: Candidate) -> None:
        """Keeps a choice; plans made from now on follow it, in this process and others."""
        self._known[problem] = winner
        records.put(self._key(problem), record(winner))

    def _key(self, problem: Problem) -> str:
        info = self.info
        lines = "".join("01"[line] for line in problem.lines)
        sizes = " ".join(map(str, problem.sizes))
        return store.key(
            FORMAT,
            info.backend,
            info.name,
            info.driver,
            problem.kernel,
            problem.dtype.name,
            sizes,
            lines,
        )


def record(winner: Candidate) -> dict[str, Any]:
    """A candidate as JSON has it."""
    return {
        "stem": winner.stem,
        "constants": dict(winner.constants),
        "threads": list(winner.threads),
        "parts": winner.parts,
    }


def candidate(found: dict[str, Any] | None) -> Candidate | None:
    """The candidate of a record; None for one that is none, which an older or newer version may have written."""
    try:
        assert found is not None
        x, y = found["threads"]
        constants = tuple((str(name), int(value)) for name, value in found["constants"].items())
        return Candidate(str(found["stem"]), constants, (int(x), int(y)), int(found["parts"]))
    except (AssertionError, KeyError, TypeError, ValueError, AttributeError):
        return None
