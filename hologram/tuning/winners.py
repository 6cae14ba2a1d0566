"""The choices that were measured on a device, kept on disk and looked up by plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hologram.foundation import lazy
from hologram.machine.choices import Candidate, Problem
from hologram.machine.device import DeviceInfo

if TYPE_CHECKING:
    import json

    from hologram.foundation import store
else:  # needed to compute, not to open
    json, store = lazy.module("json"), lazy.module("hologram.foundation.store")

KIND, FORMAT = "tunings", "1"  # of what is kept, and how it is written


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
            self._known[problem] = winner = self._kept(problem)
            if winner is None and self.missed is not None:
                self.missed(problem)
        return self._known[problem]

    def put(self, problem: Problem, winner: Candidate) -> None:
        """Keeps a choice; plans made from now on follow it, in this process and others."""
        self._known[problem] = winner
        store.shared().put(KIND, self.key(problem), json.dumps(record(winner)).encode())

    def _kept(self, problem: Problem) -> Candidate | None:
        """What is kept; what is no record, or that of another version, is thrown away."""
        cache, key = store.shared(), self.key(problem)
        content = cache.get(KIND, key)
        try:
            return None if content is None else candidate(json.loads(content))
        except (KeyError, TypeError, ValueError, AttributeError):
            cache.discard(KIND, key)
            return None

    def key(self, problem: Problem) -> str:
        """Under which a problem's winner is kept on disk."""
        info = self.info
        lines = "".join("01"[line] for line in problem.lines)
        sizes = " ".join(map(str, problem.sizes))
        rounded = "rounded" if problem.dtype in info.limits.matrix_dtypes & info.limits.rounded_dtypes else ""
        library = (
            "library" if problem.dtype in info.limits.library_products else ""
        )  # else it was no candidate
        kernel = (problem.kernel, problem.dtype.name, sizes, lines, rounded, library)
        return store.key(FORMAT, info.backend, info.name, info.driver, *kernel)


def record(winner: Candidate) -> dict[str, Any]:
    """A candidate as JSON has it."""
    return asdict(winner) | {"constants": dict(winner.constants), "threads": list(winner.threads)}


def candidate(content: dict[str, Any]) -> Candidate:
    """The candidate of a record; raises KeyError, TypeError, ValueError or AttributeError for one that is none."""
    x, y = content["threads"]
    constants = tuple((str(name), int(value)) for name, value in content["constants"].items())
    return Candidate(str(content["stem"]), constants, (int(x), int(y)), int(content["parts"]))
