"""torch.profiler: rows of the device's kernels, and of operators the time that their kernels took on the device.

PyTorch takes such rows from plug-ins in C++ only. So profiles of the devices run beside PyTorch's, and what they
measured joins its events, tables and traces. It asks for ProfilerActivity.HOLOGRAM, which is among the activities of
`profile()` unless others are named.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from hologram_torch.loading import NAME, later, whole

running: list[Any] = []  # PyTorch's profiles that ask for the device
_begin, _rows, _extend = (
    later("hologram_torch.device.profiling", name) for name in ("begin", "rows", "extend")
)


def profiler(module: ModuleType) -> None:
    """Has a profile of PyTorch's begin and end one of each device, and show what that measured."""
    profile: Any = module.__dict__["profile"]
    start, leave = profile._start_trace, profile.__exit__
    parsed, export = profile._parse_kineto_results, profile.export_chrome_trace

    def _start_trace(self: Any) -> None:
        start(self)
        self.hologram_watched = []
        if self.use_device == NAME:
            running.append(self)
            if whole.loaded:
                _begin(self.hologram_watched)

    def left(self: Any, *args: Any) -> Any:
        if self in running:
            running.remove(self)
            for watched in self.hologram_watched:
                watched.end()
        return leave(self, *args)

    def _parse_kineto_results(self: Any, result: Any, *args: Any, **kwargs: Any) -> list[Any]:
        events = parsed(self, result, *args, **kwargs)
        watched = getattr(self, "hologram_watched", ())
        return [*events, *_rows(watched, events, result.trace_start_ns())] if watched else events

    def export_chrome_trace(self: Any, path: str, *args: Any, **kwargs: Any) -> None:
        export(self, path, *args, **kwargs)
        watched = getattr(self, "hologram_watched", ())
        if watched:
            _extend(path, watched)

    profile._start_trace, profile.__exit__ = _start_trace, left
    profile._parse_kineto_results = _parse_kineto_results
    profile.export_chrome_trace = functools.wraps(export)(export_chrome_trace)
