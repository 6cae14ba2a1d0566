"""What runs after an interrupt: on pools opened and closed in any order, of other threads, in handlers."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import ctypes
import itertools
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.builder import Builder
from hologram.atlas.program import Access, Program
from hologram.backends.cpu.image import Piece, Step, prepared
from hologram.backends.cpu.kernel import Host, ProgramKernel
from hologram.backends.cpu.workers import Pool
from hologram.compiled.machine_code.engine import shared_engine
from hologram.foundation.dtypes import f32, i32
from tests.backends.cpu.interrupting import ENDLESS, halving, interrupted, works

ORDERS = list(itertools.permutations(range(3)))
_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_program = itertools.count()


@pytest.fixture(scope="module")
def cpu() -> Iterator[hg.Executor]:
    with hg.Executor("cpu") as executor:
        yield executor


def counts() -> Program:
    """Counts to a number. Each is code of its own, which is loaded when it is first launched."""
    b = Builder(f"counts_{next(_program)}", rank=1)
    out, most = b.buffer("out", f32, Access.WRITE), b.scalar("most", i32)
    zero, one = b.constant(0, i32), b.constant(1, i32)
    (count,) = b.while_(zero < most, lambda k: (k + one < most, k + one), first=[zero])
    b.store(out, b.coordinate(0), count.to(f32))
    return b.build()


class Counting:
    """Launches of one program on one pool."""

    def __init__(self, pool: Pool, program: Program | None = None) -> None:
        self.pool, self.out = pool, np.empty(1 << 16, np.float32)
        self.kernel = ProgramKernel(program or counts(), Host(shared_engine, lambda: pool, pool.threads))

    def pieces(self, turns: int) -> list[Piece]:
        spans = [(self.out.ctypes.data, self.out.nbytes)]
        return self.kernel.pieces(spans, [turns], [self.out.size])

    def launch(self, *pieces: Piece) -> None:
        prepared(pieces, self.pool, shared_engine())([self.out.ctypes.data])

    def is_interrupted(self) -> None:
        self.launch(*self.pieces(1))  # compiled
        with interrupted(0.1):
            self.launch(*self.pieces(ENDLESS))

    def writes_all(self, launches: int = 50) -> None:
        """Launches into poisoned memory, each with another number."""
        for number in range(1, launches + 1):
            self.out[...] = np.nan
            self.launch(*self.pieces(number))
            assert (self.out == number).all(), f"launch {number} left {(self.out != number).sum()} elements"

    def uses_all_threads(self) -> None:
        """Slices that wait are taken by as many threads as there are."""
        seen = set[int]()

        def body(arguments: int, begin: int, end: int) -> None:
            seen.add(threading.get_ident())
            time.sleep(0.02)

        function = _BODY(body)
        address = ctypes.cast(function, ctypes.c_void_p).value
        assert address is not None
        self.launch(Piece((Step(address, 4 * self.pool.threads, 1),), (), owner=function))
        assert len(seen) == self.pool.threads


@pytest.mark.parametrize("closed", ORDERS)
def test_pools_in_any_order(closed: tuple[int, ...], cpu: hg.Executor) -> None:
    """Whichever pool was opened last, and whichever is closed first: nobody's stop is another's."""
    lanes: list[Counting] = []
    for threads in (2, 3, 2):
        lanes.append(Counting(Pool(shared_engine(), threads)))
        lanes[-1].is_interrupted()
        for each in lanes:
            each.writes_all(5)
    crossed = [Counting(one.pool, other.kernel.program) for one, other in itertools.permutations(lanes, 2)]
    for each in (*lanes, *crossed):
        each.is_interrupted()
        each.uses_all_threads()
    for each in (*lanes, *crossed):
        each.writes_all()
    for count, number in enumerate(closed, 1):
        lanes[number].pool.close()
        open_ = [each for k, each in enumerate(lanes) if k not in closed[:count]]
        for each in open_:
            each.is_interrupted()
        for each in (*open_, *lanes):
            each.writes_all(10)
    works(cpu)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_executors_in_any_order(order: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors of other numbers of threads, whose launches are interrupted in turn."""
    opened = []
    for threads in ("3", "2"):
        monkeypatch.setenv("HOLOGRAM_CPU_THREADS", threads)
        opened.append(hg.Executor("cpu"))
    for number in order * 2:
        o = opened[number].ones(100_000)
        halving[100_000](o, 10)
        with interrupted():
            halving[100_000](o, ENDLESS)
        for each in opened:
            works(each)
    for number in order:
        opened[number].close()
    with hg.Executor("cpu") as again:
        works(again)


def comes(at: int, pieces: int) -> None:
    """Ctrl-C in the main thread, as a step of a launch: before piece `at` of so many, or at the end."""
    pool = Pool(shared_engine(), 2)
    try:
        counting = Counting(pool)
        address = ctypes.cast(ctypes.CDLL(None)["raise"], ctypes.c_void_p).value
        assert address is not None
        signals = Piece((Step(address, 1, 1, int(signal.SIGINT)),), ())
        steps = counting.pieces(7) * pieces
        steps.insert(at, signals)
        for _ in range(5):
            with pytest.raises(KeyboardInterrupt):
                counting.launch(*steps)
            counting.writes_all(10)
        counting.writes_all()
        counting.uses_all_threads()
    finally:
        pool.close()


@pytest.mark.skipif(sys.platform == "win32", reason="C's raise() sends no Ctrl-C there")
@pytest.mark.parametrize("at", [0, 1, 7, 8, 9, 20])
def test_an_interrupt_in_a_launch(at: int) -> None:
    """Whether it is heard between steps or at the end: from this launch, once, and not from the next."""
    comes(at, 20)


@pytest.mark.skipif(sys.platform == "win32", reason="C's raise() sends no Ctrl-C there")
def test_an_interrupt_at_the_end_of_a_launch() -> None:
    comes(1, 1)


def test_interrupts_at_any_time() -> None:
    """Each raises once, between launches, within, and at their ends; what ends without is whole."""
    pool = Pool(shared_engine(), 2)
    counting, rng = Counting(pool), random.Random(0)
    counting.writes_all(3)
    heard, launches, total = threading.Event(), 0, 30

    def send() -> None:
        for _ in range(total):
            time.sleep(rng.uniform(0, 0.03))
            heard.clear()
            os.kill(os.getpid(), signal.SIGINT)
            heard.wait(10)

    sender, raised = threading.Thread(target=send), 0
    sender.start()
    while raised < total:
        try:
            while True:
                counting.out[...] = np.nan
                counting.launch(*counting.pieces(50))
                assert (counting.out == 50).all()
                launches += 1
        except KeyboardInterrupt:
            raised += 1
            heard.set()
    sender.join()
    counting.writes_all()
    counting.uses_all_threads()
    pool.close()
    assert launches


def test_handlers_that_do_not_raise_stop_nothing(cpu: hg.Executor) -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        o, timer = cpu.ones(64), threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
        halving[64](o, 10)
        timer.start()
        halving[64](o, 20_000_000)
        timer.join()
        assert o.to_numpy()[0] == 2
        assert came
    finally:
        signal.signal(signal.SIGINT, before)


def test_launches_of_other_threads_go_on(cpu: hg.Executor) -> None:
    o, main = cpu.ones(64), cpu.ones(64)
    for each in (o, main):
        halving[64](each, 10)
    other = threading.Thread(target=lambda: halving[64](o, 30_000_000))
    with interrupted():
        other.start()
        halving[64](main, ENDLESS)
    other.join()
    assert o.to_numpy()[0] == 2
    works(cpu)


def test_handlers_that_launch(cpu: hg.Executor) -> None:
    """A handler may launch, and fail within: what it interrupted goes on, and is whole."""
    came: list[bool] = []
    x = cpu.tensor(np.arange(100_000, dtype=np.float32))

    def handler(number: int, frame: object) -> None:
        try:
            halving[64](cpu.ones(64), 20_000_000)
            came.append(bool((hg.sin(x) + 1).to_numpy().all()))
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            pass

    o = cpu.ones(100_000)
    halving[100_000](o, 10)
    halving[64](cpu.ones(64), 10)
    before = signal.signal(signal.SIGINT, handler)
    try:
        timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        halving[100_000](o, 20_000)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert came
    assert (o.to_numpy() == 2).all()
    works(cpu)


def test_threads_that_launch_at_the_same_time(cpu: hg.Executor) -> None:
    """None of their launches is left, before or after the interrupt."""
    x, wrong, over = np.arange(200_000, dtype=np.float32), list[int](), threading.Event()
    given = cpu.tensor(x)

    def steady() -> None:
        while not over.is_set():
            wrong.append(int(((given * 2).to_numpy() != x * 2).sum()))

    others = [threading.Thread(target=steady) for _ in range(2)]
    o = cpu.ones(100_000)
    halving[100_000](o, 10)
    for other in others:
        other.start()
    try:
        for _ in range(3):
            with interrupted():
                halving[100_000](o, ENDLESS)
            works(cpu)
    finally:
        over.set()
        for other in others:
            other.join()
    assert wrong
    assert not any(wrong)
