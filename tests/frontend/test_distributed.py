"""hg.distributed over MPI, where it is here, and what is refused without processes."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import weakref
from collections.abc import Iterator
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

import hologram as hg


@pytest.fixture(autouse=True)
def _apart() -> Iterator[None]:
    hg.distributed.shutdown()
    yield
    hg.distributed.shutdown()


@pytest.mark.skipif(not (find_spec("mpi4py") and shutil.which("mpiexec")), reason="needs mpi4py and mpiexec")
@pytest.mark.parametrize("count", [1, 2, 3])
def test_collectives_over_mpi(count: int) -> None:
    """By mpi4py's communicator as it is; `pip install mpi4py mpich` has both."""
    command = ["mpiexec", "-n", str(count), sys.executable, "-m", "tests.frontend.ranks"]
    environment = os.environ | {"HOLOGRAM_CPU_THREADS": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert all(f"rank {k} of {count} is well" in run.stdout for k in range(count)), run.stdout


class Silent:
    """A carrier whose other process never comes; `held` is what it may still write to."""

    SUM = PROD = MAX = 0
    held: Any = None

    def Get_rank(self) -> int:
        return 0

    def Get_size(self) -> int:
        return 2

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Any:
        self.held = weakref.ref(recvbuf)
        return SimpleNamespace(Test=lambda: False)

    Iallreduce = Ibcast = Iallgather


silent: Any = Silent  # whose calls have simpler types than mpi4py's


def test_memory_of_a_lost_collective_stays() -> None:
    carrier = silent()
    hg.distributed.init(carrier, timeout_s=0.01)
    with pytest.raises(hg.WorkerLost):
        hg.distributed.barrier()
    hg.distributed.shutdown()
    hg.distributed.init(silent(), timeout_s=0.01)
    gc.collect()
    assert carrier.held() is not None


class Once(Silent):
    """A carrier whose other process says the same as this one; it breaks after the first collective."""

    left = 1

    @property
    def Iallgather(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.left -= 1
        return self.echo if self.left >= 0 else 1 / 0

    def echo(self, sendbuf: Any, recvbuf: Any) -> Any:
        recvbuf[...] = sendbuf
        return SimpleNamespace(Test=lambda: True)


def test_an_error_between_what_was_agreed_on_loses_the_others() -> None:
    carrier: Any = Once()
    carrier.left = 2  # init asks whether it has such a method
    hg.distributed.init(carrier, timeout_s=0.01)
    with pytest.raises(ZeroDivisionError):
        hg.distributed.all_gather(hg.ones(2))
    lost = r"\(all_gather of f32 \(2,\) of rank 0 of 2: division by zero\)"
    with pytest.raises(hg.DistributedError, match=lost):
        hg.distributed.barrier()


def test_what_is_asked_too_early_says_so() -> None:
    x = hg.zeros(2)
    for call in (
        hg.distributed.rank,
        hg.distributed.size,
        hg.distributed.barrier,
        lambda: hg.distributed.all_reduce(x),
        lambda: hg.distributed.broadcast(x),
        lambda: hg.distributed.all_gather(x),
    ):
        with pytest.raises(hg.DistributedError, match=r"init\(\) comes first"):
            call()
        hg.distributed.init(silent())
        assert (hg.distributed.rank(), hg.distributed.size()) == (0, 2)
        hg.distributed.shutdown()


def test_what_carries_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        TypeError, match=r"a carrier has Get_rank, Get_size, Iallreduce, Iallgather, Ibcast.*got str"
    ):
        hg.distributed.init("gloo")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    with pytest.raises(hg.DistributedError, match="mpi4py is not here"):
        hg.distributed.init()
