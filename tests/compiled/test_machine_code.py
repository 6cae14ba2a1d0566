"""Object files: what tells two apart, and that they run wherever they are loaded."""

from __future__ import annotations

import ctypes
import gc
import mmap
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hologram.compiled.machine_code import objects
from hologram.compiled.machine_code.engine import Code, Engine, _Making, shared_engine  # private: see below
from hologram.compiler.scheduling.interior import Interior
from hologram.compiler.scheduling.loops import Variant
from hologram.foundation import store

FAR = 6 << 30  # bytes: beyond what a call or an address of 32 bits reaches

# Constants in memory, a routine of LLVM's, one of the C library's.
OUTSIDE = """
declare double @cbrt(double)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
@table = private constant [4 x double] [double 1.0, double 8.0, double 27.0, double 64.0]
define void @roots(ptr %out, i64 %begin, i64 %end) {
entry:
  %count = sub i64 %end, %begin
  %bytes = mul i64 %count, 8
  call void @llvm.memset.p0.i64(ptr %out, i8 255, i64 %bytes, i1 false)
  br label %body
body:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %from = getelementptr double, ptr @table, i64 %i
  %x = load double, ptr %from
  %root = call double @cbrt(double %x)
  %to = getelementptr double, ptr %out, i64 %i
  store double %root, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %body, label %done
done:
  ret void
}
"""


def roots(code: Code) -> list[float]:
    out = (ctypes.c_double * 4)()
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(code.addresses[0])
    call(ctypes.addressof(out), 0, 4)
    return [round(x, 12) for x in out]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLOGRAM_CACHE_DIR", str(tmp_path))
    return tmp_path


def reserve(size: int) -> tuple[mmap.mmap, int]:
    """Address space, and where it is."""
    space = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
    return space, np.frombuffer(space, np.uint8).ctypes.data


def fill_gaps(near: int) -> list[mmap.mmap]:
    """Takes all room about an address, so that what is loaded next goes far away."""
    taken = [reserve(FAR)[0]]
    for size in (64 << 20, 4 << 20, 256 << 10, 16 << 10, 4 << 10):
        for _ in range(4096):
            space, address = reserve(size)
            taken.append(space)
            if abs(address - near) > FAR // 2:
                break
    return taken


def load_far_away() -> None:
    """Runs one object file's code at two places further apart than 32 bits reach."""
    engine = shared_engine()
    content = engine.compile("roots", OUTSIDE)
    near = engine.load(content, ("roots",))
    taken = fill_gaps(near.addresses[0])
    far = engine.load(content, ("roots",))
    del taken
    assert abs(far.addresses[0] - near.addresses[0]) > 1 << 31, "the test must load code far away"
    assert roots(near) == roots(far) == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="address space is reserved the way of Linux")
def test_code_runs_however_far_from_what_it_calls() -> None:
    # In a process of its own: nothing else there gives memory back meanwhile.
    subprocess.run([sys.executable, __file__], check=True, timeout=60)


def test_code_that_is_not_optimised_is_kept_apart(folder: Path, monkeypatch) -> None:
    engine = shared_engine()
    made = {}
    for flag in ("1", "0"):
        monkeypatch.setenv("HOLOGRAM_CPU_OPTIMISE", flag)
        assert [kept(engine), kept(engine)] == [1, 0]
        made[flag] = engine.compile("roots", OUTSIDE)
        assert roots(engine.load(made[flag], ("roots",))) == [1.0, 2.0, 3.0, 4.0]
    assert made["0"] != made["1"]


def test_threads_compile_side_by_side(monkeypatch) -> None:
    """Both are between a compilation's start and its end at once, and make what one thread makes."""
    engine, both = shared_engine(), threading.Barrier(2, timeout=30)
    alone, optimised = engine.compile("roots", OUTSIDE), Engine.optimise

    def together(self: Engine, name: str, text: str) -> Any:
        both.wait()
        made = optimised(self, name, text)
        both.wait()
        return made

    monkeypatch.setattr(Engine, "optimise", together)
    with ThreadPoolExecutor(2) as threads:
        made = [threads.submit(engine.compile, "roots", OUTSIDE) for _ in range(2)]
    assert [m.result() for m in made] == [alone, alone]


def test_threads_that_want_the_same_code_share_one() -> None:
    engine, begun, made = shared_engine(), threading.Event(), []

    def make() -> Code:
        begun.set()
        made.append(threading.get_ident())
        time.sleep(0.05)  # so that the other one asks meanwhile
        return engine.load(engine.compile("roots", OUTSIDE), ("roots",))

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(engine.once, "roots", make)
        assert begun.wait(30)
        second = threads.submit(engine.once, "roots", make)
        assert first.result() is second.result()
    assert len(made) == 1


def test_code_stays_where_it_is_as_long_as_somebody_has_it(folder: Path) -> None:
    """Launches are compared by the addresses in them: the same kernel, compiled anew, is not another one."""
    engine = shared_engine()

    def code() -> Code:
        return objects.kept_code(engine, "roots", "roots", lambda: (OUTSIDE, ("roots",)))

    held = code()
    assert code() is held
    gone = weakref.ref(held)
    del held
    gc.collect()
    assert gone() is None
    assert roots(code()) == [1.0, 2.0, 3.0, 4.0]


def test_who_waited_for_code_ends_nobody_elses_making() -> None:
    """The one that waited ends when a third one makes the same anew: that one is still found."""
    engine, code = shared_engine(), Code((1,), None)

    def make() -> Code:
        engine._making["roots"] = another  # noqa: SLF001  three threads' moment, which no call reaches
        return code

    another = _Making()
    assert engine.once("roots", make) is code
    assert engine._making.pop("roots") is another  # noqa: SLF001  three threads' moment, which no call reaches


def test_a_function_that_is_not_there_is_no_address() -> None:
    engine = shared_engine()
    with pytest.raises(ValueError, match="must have"):
        engine.load(engine.compile("roots", OUTSIDE), ("roots", "others"))


def test_loaded_code_is_let_go() -> None:
    engine = shared_engine()
    content = engine.compile("roots", OUTSIDE)
    for _ in range(300):
        assert roots(engine.load(content, ("roots",))) == [1.0, 2.0, 3.0, 4.0]


def kept(engine: Engine, identity: str = "roots") -> int:
    """How often the IR had to be written."""
    written: list[str] = []

    def write() -> tuple[str, tuple[str, ...]]:
        written.append(identity)
        return OUTSIDE, ("roots",)

    assert roots(objects.kept_code(engine, "roots", identity, write)) == [1.0, 2.0, 3.0, 4.0]
    return len(written)


def test_only_the_same_code_for_the_same_processor_is_found(folder: Path, monkeypatch) -> None:
    engine = shared_engine()
    assert [kept(engine), kept(engine)] == [1, 0]
    assert [kept(engine, "other"), kept(engine, "other")] == [1, 0]
    elsewhere = Engine()
    elsewhere.target = elsewhere.target.replace(elsewhere.cpu, "another processor")
    assert [kept(elsewhere), kept(elsewhere), kept(engine)] == [1, 0, 0]
    generator = "hologram.compiler.source.kept.generator_digest"
    monkeypatch.setattr(generator, lambda folder: f"another generator than {folder}")
    assert [kept(engine), kept(engine)] == [1, 0]
    assert store.shared().stats(objects.FOLDER.name).compiled == 4


def test_what_changes_the_code_changes_the_text_of_a_variant() -> None:
    plain = Variant("map", (0, 1), ())
    accesses = [(f"x{n}", n) for n in range(20)]
    variants = [
        plain,
        replace(plain, form="row"),
        replace(plain, order=(1, 0)),
        replace(plain, order=(0,), reduced=(1,)),
        replace(plain, constants=(("stride", 1),)),
        replace(plain, constants=(("stride", 0),)),
        replace(plain, guarded=frozenset(accesses)),
        replace(plain, guarded=frozenset(accesses[1:])),
        replace(plain, split=1),
        replace(plain, keep=True),
        replace(plain, once=True),
        replace(plain, brief=True),
        replace(plain, row=(3,)),
        replace(plain, row=(3, 2)),
        replace(plain, block=64),
        replace(plain, apart=True),
        replace(plain, early=True),
        replace(plain, whole=True),
        replace(plain, copied="out"),
        replace(plain, parts=2),
        replace(plain, inside=Interior(((1, 1),), ())),
        replace(plain, inside=Interior(((1, 2),), ())),
        replace(plain, inside=Interior(((1, 1),), ((3, 1),))),
        replace(plain, strips=16),
        replace(plain, short=True),
        replace(plain, grid=(4, 4)),
        replace(plain, grid=(2, 8)),
    ]
    assert len({variant.text for variant in variants}) == len(variants)
    assert replace(plain, guarded=frozenset(accesses[::-1])).text == variants[6].text
    assert len(vars(plain)) == 20, "a new field needs a variant above"


if __name__ == "__main__":
    load_far_away()
