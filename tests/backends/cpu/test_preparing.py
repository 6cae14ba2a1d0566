"""How the programs of one launch get their code: by several threads, whatever became of those before."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from hologram.backends.cpu import preparing
from hologram.backends.cpu.kernel import Host, ProgramKernel
from hologram.backends.cpu.workers import shared_pool
from hologram.compiled.machine_code.engine import Code, shared_engine
from hologram.compiler.scheduling.loops import Variant
from hologram.foundation.dtypes import f32
from hologram.foundation.errors import CompileError
from hologram.machine.kernel import Area, Call
from tests.backends.cpu.llvm.launching import device, elementwise, place


def two_threads() -> Host:
    return Host(shared_engine, lambda: shared_pool(shared_engine, 2), 2)


def kernels(host: Host, *names: str) -> list[ProgramKernel]:
    return [
        ProgramKernel(elementwise(f"atlas_{name}", lambda x, k=k: x + float(k), [f32], f32), host)
        for k, name in enumerate(names)
    ]


def chained(host: Host, count: int = 4) -> None:
    """Programs that nobody has compiled, each on what the one before has made."""
    cpu, size = device(), 64
    a = np.arange(size, dtype=np.float32)
    memories = [place(cpu, a) for _ in range(count + 1)]
    areas = [Area(k, 0, a.nbytes) for k in range(count + 1)]
    places = [m.address for m in memories]
    named = kernels(host, *("zero", "one", "two", "three")[:count])
    calls = [Call(kernel, (areas[k], areas[k + 1]), (), (size,)) for k, kernel in enumerate(named)]
    preparing.prepared(calls, places, host)(list(places))
    np.testing.assert_array_equal(memories[-1].bytes.view(np.float32)[:size], a + sum(range(count)))


def test_programs_of_a_launch_are_compiled_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads are in the compiler at once; what fails there fails in the caller's, and ends the other."""
    host = two_threads()
    asked, both, met = ProgramKernel.code, threading.Barrier(2, timeout=30), set[int]()

    def code(kernel: ProgramKernel, variant: Variant) -> Code:
        if threading.get_ident() not in met:
            met.add(threading.get_ident())
            both.wait()
        if "bad" in kernel.program.name:
            raise CompileError(kernel.program.name, "it is bad")
        return asked(kernel, variant)

    monkeypatch.setattr(ProgramKernel, "code", code)
    chained(host)
    assert len(met) == 2
    met.clear()
    x = place(device(), np.zeros(64, np.float32))
    area = Area(0, 0, 256)
    calls = [Call(kernel, (area, area), (), (64,)) for kernel in kernels(host, "bad", "worse", "bad_too")]
    with pytest.raises(CompileError, match="atlas_bad"):
        preparing.prepared(calls, [x.address], host)


_INTERRUPTED = """
import llvmlite.binding.ffi as ffi
from tests.backends.cpu.test_preparing import chained, two_threads
host = two_threads()
host.engine()
ffi.lib._lock.__enter__()  # as an interrupt between this and its end leaves it
chained(host)
ffi.lib._lock.__enter__()
chained(host, 1)
assert not ffi.lib._lock._lock._is_owned()
"""


def test_ctrl_c_within_llvm_stops_no_later_compilation() -> None:
    """It leaves llvmlite's lock with the thread that it met."""
    subprocess.run([sys.executable, "-c", _INTERRUPTED], check=True, timeout=30)


def test_without_more_threads_the_caller_compiles_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    host = two_threads()
    host.pool()  # has threads of its own
    monkeypatch.setattr(threading.Thread, "start", start)
    chained(host)
