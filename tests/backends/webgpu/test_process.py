"""What becomes of a process: executors that nobody closed, forked children, Ctrl-C. Each test has one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PRELUDE = """
import gc, json, os, signal, threading, time
import numpy as np, hologram as hg
"""


def said(script: str) -> Any:
    """What a process of its own prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + script],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=240,
        env=os.environ | {"HOLOGRAM_BACKEND": "webgpu"},
    )
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self")
@pytest.mark.parametrize("read", [True, False], ids=["read", "pending"])
def test_executors_that_nobody_closed_leave_nothing(index: int, read: bool) -> None:
    seen = said(
        """
def once():
    executor = hg.Executor()
    t = executor.tensor(np.ones(1000, np.float32))
    t = t + t
    %s
found = []
for _ in range(20):
    once()
    gc.collect()
    pages = int(open("/proc/self/statm").read().split()[1])
    found.append((len(os.listdir("/proc/self/task")), pages * os.sysconf("SC_PAGE_SIZE")))
print(json.dumps(found))
"""
        % ("t.to_numpy()" if read else "pass")
    )
    threads, resident_bytes = zip(*seen, strict=True)
    assert threads[-1] <= threads[1], threads
    assert resident_bytes[-1] - resident_bytes[1] < 18 << 20, resident_bytes  # it was 5 MB each


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
@pytest.mark.parametrize("open_", ["", "kept = hg.Executor()"], ids=["probed", "opened"])
def test_a_forked_child_is_told_or_computes(index: int, open_: str) -> None:
    """A driver's threads stay behind: the child of a process that has a device waited for them for ever."""
    seen = said(
        f"""
hg.backends()
{open_}
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    signal.alarm(60)
    try:
        what = float(hg.Executor().tensor([1.0, 2.0]).sum())
    except hg.BackendUnavailable as error:
        what = str(error)
    os.write(writer, json.dumps([what, [p.available for p in hg.backends() if p.backend == "webgpu"]]).encode())
    os._exit(0)
os.close(writer)
print(os.fdopen(reader).read() or json.dumps("hung"))
os.waitpid(child, 0)
"""
    )
    if not open_:
        assert seen == [3.0, [True]]
        return
    message, available = seen
    assert "forked" in message
    assert "'spawn'" in message
    assert available == [False]


@pytest.mark.skipif(sys.platform == "win32", reason="a signal cannot be sent to oneself")
def test_ctrl_c_stays_itself_and_the_device_usable(index: int) -> None:
    seen = said(
        """
executor = hg.Executor()
a = executor.tensor(np.full((768, 768), 1 / 768, np.float32))
(a @ a).to_numpy()
start = time.perf_counter()
(a @ a).to_numpy()
product_s = time.perf_counter() - start
b = a
for _ in range(max(4, int(2.0 / product_s))):
    b = a @ b
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    b.to_numpy()
    what = "nothing"
except KeyboardInterrupt:
    what = "KeyboardInterrupt"
except hg.HologramError as error:
    what = str(error)
print(json.dumps([what, float(b.to_numpy()[0, 0] * 768)]))
"""
    )
    assert seen == ["KeyboardInterrupt", pytest.approx(1.0, rel=1e-4)]


FULL_QUEUE = """
from hologram.atlas.builder import Builder
from hologram.atlas.program import Access
from hologram.dtypes import index, u32

b = Builder("slow")
data, n, lane = b.buffer("data", u32, Access.READ_WRITE), b.scalar("n", index), b.coordinate(0)
(total,) = b.loop(0, n, lambda i, t: (t * 3 + i.to(u32),), first=(b.load(data, lane),))
b.store(data, lane, total)
program, lanes = b.build(), 1 << 15
executor = hg.Executor(backend="webgpu")
data = executor.allocate(lanes, u32)
data.fill(0)


def launch(n):
    executor.run(program, {"data": data}, lanes=lanes, n=n)


def took(n):
    start = time.perf_counter()
    launch(n)
    executor.synchronize()
    return time.perf_counter() - start


n = 64
while min(took(n), took(n)) < 0.02 and n < 30_000:
    n *= 2
sent = 0.0


def interrupt():
    global sent
    sent = time.perf_counter()
    os.kill(os.getpid(), signal.SIGINT)


signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
threading.Timer(1.0, interrupt).start()
heard = "never"
try:
    for _ in range(700):
        launch(n)
    ACTION
except KeyboardInterrupt:
    heard = time.perf_counter() - sent
print(json.dumps(heard), flush=True)
os._exit(0)  # without waiting for what is left
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a signal cannot be sent to oneself")
@pytest.mark.parametrize(
    "action", ["executor.synchronize()", "data.to_numpy()", "data.from_numpy(data.to_numpy())"]
)
def test_ctrl_c_is_heard_while_the_queue_is_full(index: int, action: str) -> None:
    heard = said(FULL_QUEUE.replace("ACTION", action))
    assert isinstance(heard, float), "the queue was not full"
    assert heard < 1.0
