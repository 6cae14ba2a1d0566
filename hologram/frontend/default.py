"""The executor of whatever names none: opened when it is first needed, settable, and another one within a `with`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from hologram.frontend.executor import Executor
from hologram.opset.forms.default import Default
from hologram.runtime.dispatch import Dispatch
from hologram.runtime.selector import choose, number_or_name


class Process:
    """What all threads share: the default, and the one executor for each device that it and calls by name run on."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.default: Executor | None = None
        self.opened: dict[str, Executor] = {}  # by device; none that a program opened itself

    def current(self) -> Executor:
        """The default, opened at its first use, and again on its device once it is closed or left behind by a fork."""
        executor = self.default
        if executor is None or not executor.usable:
            with self.lock:
                executor = self.default = (
                    self._chosen() if self.default is None else self._living(self.default)
                )
        return executor

    def on(self, device: str) -> Executor:
        """An executor of the device of that name: the default if it is there."""
        with self.lock:
            known = (self.default, *self.opened.values())
            executor = next((ex for ex in known if ex is not None and _is_on(ex, device)), None)
            if executor is None:
                backend, _, number = device.partition(":")
                return self._kept(Executor(backend, number_or_name(number)))
            living = self._living(executor)
            if executor is self.default:
                self.default = living
            return living

    def _chosen(self) -> Executor:
        """One of the device that `auto` chooses."""
        chosen = choose()
        known = self.opened.get(f"{chosen.name}:{chosen.index}")
        return self._kept(Executor()) if known is None else self._living(known)

    def _living(self, executor: Executor) -> Executor:
        """The executor, or one like it in its place if it was closed, or belongs to the process before a fork."""
        if executor.usable:
            return executor
        known = self.opened.get(_name(executor))
        if known is not None and known.usable and _settings(known) == _settings(executor):
            return known
        return self._kept(Executor(executor.backend, executor.device.info.index, **_settings(executor)))

    def _kept(self, executor: Executor) -> Executor:
        self.opened[_name(executor)] = executor
        return executor


def _settings(executor: Executor) -> dict[str, Any]:
    return {"matmul_precision": executor.matmul_precision, "reproducible": executor.reproducible}


def _name(executor: Executor) -> str:
    return f"{executor.backend}:{executor.device.info.index}"


def _is_on(executor: Executor, device: str) -> bool:
    return device in (_name(executor), executor.backend)


_process = Process()
_within: ContextVar[Executor | None] = ContextVar("hologram_executor", default=None)

if hasattr(os, "register_at_fork"):  # another thread may hold the lock while a process forks

    def _after_fork() -> None:
        _process.lock = threading.RLock()

    os.register_at_fork(after_in_child=_after_fork)


def default_executor() -> Executor:
    """The executor of calls that name none: `hg.zeros(3)`, `hg.asarray(x)`, `hg.add(array, array)`, unpickled tensors.

    That is, in this order: while a function is traced, the executor that it is traced for; within `with
    hg.use_executor(ex)`, that one; the process's, which `hg.set_default_executor` names, and which is else opened at
    its first use as `Executor("auto")`, so that HOLOGRAM_BACKEND names its backend. Threads share it. One that was
    closed, or that a forked process inherited, is opened anew on the same device.
    """
    if Dispatch.tracers and (tracer := Dispatch.tracers.get(threading.get_ident())) is not None:
        return tracer.executor
    return _within.get() or _process.current()


def set_default_executor(executor: Executor | None) -> None:
    """Makes an executor the process's default, for all threads; None, one that is opened when it is next needed."""
    if executor is not None and not isinstance(executor, Executor):
        raise TypeError(f"set_default_executor: an Executor is needed, got {type(executor).__name__}")
    with _process.lock:
        _process.default = executor


@contextmanager
def use_executor(executor: Executor | str) -> Iterator[Executor]:
    """A context in which an executor, or that of a device ("cpu", "webgpu:0"), is the default of this thread or task.

    It is not closed at the end: `with hg.Executor() as ex, hg.use_executor(ex): ...` does both.
    """
    chosen = executor_of(executor)
    token = _within.set(chosen)
    try:
        yield chosen
    finally:
        _within.reset(token)


def executor_of(device: Any) -> Any:
    """The executor that the argument `device` of functions names: None, an Executor, or "webgpu", "webgpu:0"."""
    if device is None:
        return default_executor()
    if isinstance(device, Executor):
        return device
    if not isinstance(device, str):
        raise TypeError(f"device must be an Executor or a name such as 'cpu:0', got {type(device).__name__}")
    inner = default_executor() if Dispatch.tracers or _within.get() is not None else None
    return inner if inner is not None and _is_on(inner, device) else process_executor(device)


def process_executor(device: str) -> Executor:
    """The executor that all threads share on a device, whatever this one is within: PyTorch's device computes on it."""
    return _process.on(device)


Default.executor = staticmethod(executor_of)
