"""The worker threads: daemon threads of Python parked in compiled code (workers.ll), shared by all CPU devices.

They start with the first launch that is worth sharing. A forked child has the pool's memory but none of its threads:
launches bound before the fork run alone there, and the next one that is bound starts new threads.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import platform
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hologram.backends.cpu import interrupts
from hologram.compiled.machine_code.engine import Engine
from hologram.compiled.machine_code.objects import kept_code
from hologram.foundation.errors import BackendUnavailable

_SIZE_BYTES = 5 * 64
_LOOKS_SLOT = (4 * 64 + 8) // 8
_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}

_LINUX = """
declare i64 @syscall(i64, ...)
define internal void @wait(ptr %word, i32 %old) {{
  %1 = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 128, i32 %old, ptr null, ptr null, i64 0)
  ret void
}}
define internal void @wake(ptr %word) {{
  %1 = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 129, i32 2147483647, ptr null, ptr null, i64 0)
  ret void
}}
declare i32 @sched_yield()
define internal void @yield() {{
  %1 = call i32 @sched_yield()
  ret void
}}
"""
_DARWIN = """
declare i32 @__ulock_wait(i32, ptr, i64, i32)
declare i32 @__ulock_wake(i32, ptr, i64)
define internal void @wait(ptr %word, i32 %old) {
  %wide = zext i32 %old to i64
  %1 = call i32 @__ulock_wait(i32 1, ptr %word, i64 %wide, i32 0)
  ret void
}
define internal void @wake(ptr %word) {
  %1 = call i32 @__ulock_wake(i32 257, ptr %word, i64 0)
  ret void
}
declare i32 @sched_yield()
define internal void @yield() {
  %1 = call i32 @sched_yield()
  ret void
}
"""
_WINDOWS = """
declare i32 @WaitOnAddress(ptr, ptr, i64, i32)
declare void @WakeByAddressAll(ptr)
define internal void @wait(ptr %word, i32 %old) {
  %cell = alloca i32
  store i32 %old, ptr %cell
  %1 = call i32 @WaitOnAddress(ptr %word, ptr %cell, i64 4, i32 -1)
  ret void
}
define internal void @wake(ptr %word) {
  call void @WakeByAddressAll(ptr %word)
  ret void
}
declare i32 @SwitchToThread()
define internal void @yield() {
  %1 = call i32 @SwitchToThread()
  ret void
}
"""
_RELAX = {
    "x86_64": "call void @llvm.x86.sse2.pause()",
    "amd64": "call void @llvm.x86.sse2.pause()",
    "aarch64": "call void @llvm.aarch64.hint(i32 1)",
    "arm64": "call void @llvm.aarch64.hint(i32 1)",
}


def prelude(system: str, machine: str) -> str:
    """How this system relaxes, yields, waits and wakes, as IR; raises BackendUnavailable where that is not known."""
    relax = f"define internal void @relax() {{\n  {_RELAX.get(machine, '')}\n  ret void\n}}\n"
    for name in ("llvm.x86.sse2.pause()", "llvm.aarch64.hint(i32)"):
        if name.partition("(")[0] in relax:
            relax += f"declare void @{name}\n"
    if system == "linux" and machine in _FUTEX:
        return relax + _LINUX.format(futex=_FUTEX[machine])
    if system == "darwin":
        return relax + _DARWIN
    if system == "win32":
        return relax + _WINDOWS
    raise BackendUnavailable(f"cpu: no way is known to park threads on {system} {machine}")


class Pool:
    """Threads that share launches.

    `address` is what a launch record needs; `launch_address`, or `repeat_address`, what its caller does.
    """

    def __init__(self, engine: Engine, threads: int) -> None:
        machine = platform.machine().lower()
        interrupts.known()
        text = prelude(sys.platform, machine) + Path(__file__).with_name("workers.ll").read_text()
        if sys.platform == "win32":
            engine.provide(
                ctypes.WinDLL("kernelbase"), ("WaitOnAddress", "WakeByAddressAll", "SwitchToThread")
            )
        functions = ("pool_worker", "pool_launch", "pool_repeat", "pool_stop")
        code = kept_code(engine, "pool", text, lambda: (text, functions))
        self._code = code
        self._worker, self.launch_address, self.repeat_address, self._stop = code.addresses
        self._state = np.zeros(_SIZE_BYTES + 64, np.uint8)
        start = -self._state.ctypes.data % 64
        self._slots = self._state[start : start + _SIZE_BYTES].view(np.int64)
        self.address = self._slots.ctypes.data
        self.threads = threads
        self._workers: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        """As new: also in a forked child, where another thread may have been in the middle of a launch."""
        self._slots[:] = 0
        # About 30 us of looking: a pause takes 40 to 140 cycles on x86, ARM's hint one or two.
        self._slots[_LOOKS_SLOT] = 1000 if platform.machine().lower() in ("x86_64", "amd64") else 20_000
        self._workers = []
        self._lock = threading.Lock()

    def start(self) -> None:
        """Starts the threads unless they run."""
        if len(self._workers) >= self.threads - 1 or self._closed:
            return
        with self._lock:
            enter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._worker)
            for k in range(len(self._workers) + 1, self.threads):
                worker = threading.Thread(
                    target=enter, args=(self.address,), name=f"hologram-cpu-{k}", daemon=True
                )
                self._workers.append(worker)  # first: an interrupt may come while it starts
                worker.start()

    def close(self) -> None:
        """Ends the threads; launches run alone from now on."""
        self._closed = True
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._stop)(self.address)
        for worker in self._workers:
            if worker.is_alive():
                worker.join()
        self._workers = []


@functools.lru_cache(maxsize=1)
def shared_pool(open_engine: Callable[[], Engine], threads: int) -> Pool:
    """The process's pool."""
    pool = Pool(open_engine(), threads)
    # Workers must have left compiled code before the interpreter frees it.
    atexit.register(pool.close)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=pool._reset)
    return pool
