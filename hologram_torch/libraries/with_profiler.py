"""torch.profiler: rows of the device's kernels, and of operators the time that their kernels took on the device.

PyTorch takes such rows from plug-ins in C++ only. So profiles of the devices run beside PyTorch's, and what they
measured joins its events, tables and traces. It asks for ProfilerActivity.HOLOGRAM, which is among the activities of
`profile()` unless others are named.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from types import ModuleType
from typing import Any

from hologram_torch.loading import NAME

running: list[Any] = []  # PyTorch's profiles that ask for the device
# How devices are watched and shown: `begin`, `rows` and `extend` of device/profiling.py, once that is loaded.
ways: dict[str, Callable[..., Any]] = {}


def profiler(module: ModuleType) -> None:
    """Has a profile of PyTorch's begin and end one of each device, and show what that measured."""
    profile: Any = module.__dict__["profile"]
    activities: Any = module.__dict__["ProfilerActivity"]
    if not hasattr(activities, NAME.upper()):  # PyTorch before 2.13 calls it PrivateUse1 alone
        setattr(activities, NAME.upper(), activities.PrivateUse1)
    create, start, leave = profile.__init__, profile._start_trace, profile.__exit__
    parsed, export = profile._parse_kineto_results, profile.export_chrome_trace

    def created(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("use_device") == NAME:  # else PyTorch asks a plug-in for marks at every operator
            kwargs["use_kineto"] = True
        create(self, *args, **kwargs)

    def _start_trace(self: Any) -> None:
        start(self)
        self.hologram_watched = {}  # by executor
        if self.use_device == NAME:
            running.append(self)
            try:
                if ways:
                    ways["begin"](self.hologram_watched, self.profile_memory)
            except BaseException:  # what was wrong with a device before; nobody will end the profile
                left(self, None, None, None)
                raise

    def left(self: Any, *args: Any) -> None:
        with ExitStack() as ending:
            ending.callback(leave, self, *args)  # last, whatever is wrong with a device
            if self in running:
                running.remove(self)
                for watched in self.hologram_watched.values():
                    ending.callback(watched.end)

    def _parse_kineto_results(self: Any, result: Any, *args: Any, **kwargs: Any) -> list[Any]:
        events = parsed(self, result, *args, **kwargs)
        watched = tuple(getattr(self, "hologram_watched", {}).values())
        return [*events, *ways["rows"](watched, events, result.trace_start_ns())] if watched else events

    def export_chrome_trace(self: Any, path: str, *args: Any, **kwargs: Any) -> None:
        export(self, path, *args, **kwargs)
        watched = tuple(getattr(self, "hologram_watched", {}).values())
        if watched:
            ways["extend"](path, watched)

    profile.__init__ = functools.wraps(create)(created)
    profile._start_trace, profile.__exit__ = _start_trace, left
    profile._parse_kineto_results = _parse_kineto_results
    profile.export_chrome_trace = functools.wraps(export)(export_chrome_trace)
