"""Hearing Ctrl-C in compiled code (interrupts.ll): one copy for the process, loaded before whatever calls it."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from pathlib import Path

from hologram.compiled.machine_code.builtin import keep
from hologram.compiled.machine_code.engine import Code, shared_engine
from hologram.compiled.machine_code.objects import kept_code

_FUNCTIONS = (
    *("hologram_listen", "hologram_serve", "hologram_heard"),
    *("hologram_stopped", "hologram_left"),
)
# Clock 6 is Linux's coarse one, of a few milliseconds, and the monotonic one of macOS.
_UNIX_CLOCK = """
declare i32 @clock_gettime(i32, ptr)
define internal i64 @now() {
  %time = alloca [2 x i64]
  %1 = call i32 @clock_gettime(i32 6, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000
  %part = sdiv i64 %rest, 1000000
  %milliseconds = add i64 %whole, %part
  ret i64 %milliseconds
}
"""
_WINDOWS_CLOCK = """
declare i64 @GetTickCount64()
define internal i64 @now() {
  %1 = call i64 @GetTickCount64()
  ret i64 %1
}
"""
_PROVIDED = (
    *("PyThread_get_thread_ident", "PyThread_tss_set", "PyThread_tss_get"),
    *("PyGILState_Ensure", "PyErr_CheckSignals", "PyGILState_Release"),
)
_loading = threading.RLock()  # a handler may launch


def text(system: str) -> str:
    """The module's IR for a system."""
    clock = _WINDOWS_CLOCK if system == "win32" else _UNIX_CLOCK
    return clock + Path(__file__).with_name("interrupts.ll").read_text()


def known() -> None:
    """Makes the functions of interrupts.ll known to whatever is loaded afterwards."""
    with _loading:
        _loaded()


@functools.cache
def _loaded() -> Code:
    engine, written = shared_engine(), text(sys.platform)
    engine.provide(ctypes.pythonapi, _PROVIDED)
    if sys.platform == "win32":
        engine.provide(ctypes.WinDLL("kernelbase"), ("GetTickCount64",))
    code = kept_code(engine, "interrupts", written, lambda: (written, _FUNCTIONS))
    keep(code)
    for name, address in zip(_FUNCTIONS, code.addresses, strict=True):
        engine.know(name, address)
    listen = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(code.addresses[0])
    slot = _slot()

    def begin() -> None:
        listen(threading.main_thread().ident, slot)

    begin()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=begin)
    return code


def _slot() -> int:
    """Where Python keeps an address for each thread."""
    api = ctypes.pythonapi
    api.PyThread_tss_alloc.restype = ctypes.c_void_p
    slot = api.PyThread_tss_alloc()
    if slot is None or api.PyThread_tss_create(ctypes.c_void_p(slot)):
        raise MemoryError("cpu: the system must have a slot for each thread left, it has none")
    return slot
