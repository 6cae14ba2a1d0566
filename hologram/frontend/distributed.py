"""Collectives of tensors between processes: hg.distributed, over MPI or over what else carries arrays of the host.

    hg.distributed.init()                         # mpi4py's COMM_WORLD: mpiexec -n 4 python train.py
    gradient = hg.distributed.all_reduce(gradient, "mean")

A carrier (`Carrier`) has the few methods of mpi4py's communicators that are used here, so these are carriers as they
are; `hologram_torch.distributed.carrier()` is one over torch.distributed. Arrays pass host memory.

Every process asks for the same collectives in the same order, for tensors of one shape and dtype: ahead of each they
tell one another what they ask for, and where that differs, or one refuses its own call, all raise DistributedError. A
process that does not come within the timeout raises WorkerLost in the others. Nothing is sent after that: `init` begins
anew, with another carrier.
"""

from __future__ import annotations

import hashlib
import operator
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from hologram.foundation.errors import DistributedError, UnsupportedDType, WorkerLost
from hologram.frontend.reduced import REDUCTIONS, reduced
from hologram.frontend.tensor import Tensor

__all__ = ["Carrier", "all_gather", "all_reduce", "barrier", "broadcast", "init", "rank", "shutdown", "size"]

TOLD_BYTES = 256  # of what a process asks for; the digest ahead of it is of all
DIGEST_BYTES = 32
# MPI moves data while it is asked: a request is asked all the time at first, then when others had a turn, then seldom.
BUSY_S, IDLE_S, PAUSE_S = 2e-3, 1.0, 1e-3
TOLD_ANSWERS = 8  # of processes that ask for different things, in an error


class Request(Protocol):
    """A collective that was begun."""

    def Test(self) -> bool:  # noqa: N802
        """Whether it is done; RuntimeError where it failed."""
        ...


class Carrier(Protocol):
    """What carries contiguous arrays of the host between processes, as mpi4py.MPI.Comm does.

    Arrays are of uint8, int32, int64, float32 or float64. `op` is what the carrier, or the module of its class, has
    under the name SUM, PROD or MAX.
    """

    # https://mpi4py.readthedocs.io/en/stable/reference/mpi4py.MPI.Comm.html
    def Get_rank(self) -> int: ...  # noqa: N802
    def Get_size(self) -> int: ...  # noqa: N802
    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: Any) -> Request: ...  # noqa: N802
    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request: ...  # noqa: N802
    def Ibcast(self, buf: Any, root: int) -> Request: ...  # noqa: N802


class Group:
    """The processes that a carrier reaches."""

    def __init__(self, carrier: Any, timeout_s: float) -> None:
        self.carrier = carrier
        self.timeout_s = timeout_s
        self.rank: int = carrier.Get_rank()
        self.size: int = carrier.Get_size()
        self.lost = ""  # why nothing is sent any more
        # The arrays of what is under way: they may be written to, also when all is lost.
        self._left: list[Any] = []

    def run(self, what: str, begun: Callable[..., Any], *given: Any) -> None:
        """Begins a collective of the carrier's, and waits for it; raises WorkerLost."""
        start = time.monotonic()
        try:
            self._left = [given]
            request = begun(*given)
            self._left.append(request)
            while not request.Test():
                passed = time.monotonic() - start
                if passed > self.timeout_s:
                    raise TimeoutError(f"another process did not come within {self.timeout_s:g} s")
                if passed > BUSY_S:
                    time.sleep(PAUSE_S if passed > IDLE_S else 0)
        except BaseException as error:
            self.lost = f"{what} of rank {self.rank} of {self.size}: {error or type(error).__name__}"
            if isinstance(error, Exception):  # in the carrier's words
                raise WorkerLost(self.lost) from error
            raise
        self._left = []

    def agree(self, said: str) -> None:
        """Tells the others what this process asks for; raises DistributedError where they ask for something else."""
        if self.lost:
            raise DistributedError(
                f"{said}: no collective runs after one that failed ({self.lost}): init anew"
            )
        text = said.encode()
        own = np.zeros(DIGEST_BYTES + TOLD_BYTES, np.uint8)
        own[:DIGEST_BYTES] = np.frombuffer(hashlib.sha256(text).digest(), np.uint8)
        own[DIGEST_BYTES : DIGEST_BYTES + len(text)] = np.frombuffer(text[:TOLD_BYTES], np.uint8)
        told = np.empty((self.size, own.size), np.uint8)
        self.run(said, self.carrier.Iallgather, own, told)
        if (told[:, :DIGEST_BYTES] == own[:DIGEST_BYTES]).all():
            return
        ranks: dict[bytes, list[int]] = {}
        for rank, row in enumerate(told):
            ranks.setdefault(row.tobytes(), []).append(rank)
        asked = [
            f"rank{'s' * (len(who) > 1)} {_listed(who)}: {_text(row)}"
            for row, who in list(ranks.items())[:TOLD_ANSWERS]
        ]
        raise DistributedError(f"processes must ask for the same, got {'; '.join(asked)}")

    @contextmanager
    def agreed(self, said: str) -> Iterator[None]:
        """What follows belongs to what was agreed on: who leaves it with an error is lost to the others."""
        self.agree(said)
        try:
            yield
        except BaseException as error:
            self.lost = (
                self.lost or f"{said} of rank {self.rank} of {self.size}: {error or type(error).__name__}"
            )
            raise

    @contextmanager
    def refusals(self, who: str) -> Iterator[None]:
        """What this process refuses it tells the others, who wait for it."""
        try:
            yield
        except Exception as error:
            with suppress(DistributedError):
                self.agree(f"{who}, refused: {type(error).__name__}: {error}")
            raise

    def reduce(self, what: str) -> Callable[[np.ndarray, str], np.ndarray]:
        """The function by which an array is reduced with those of the others."""

        def through(values: np.ndarray, op: str) -> np.ndarray:
            out = np.empty_like(values)
            named = getattr(self.carrier, op, None)
            if named is None:
                named = getattr(sys.modules[type(self.carrier).__module__], op)
            self.run(what, self.carrier.Iallreduce, values, out, named)
            return out

        return through


def _listed(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:TOLD_ANSWERS])) + (", ..." if len(ranks) > TOLD_ANSWERS else "")


def _text(row: bytes) -> str:
    return row[DIGEST_BYTES:].rstrip(b"\0").decode(errors="replace")


class _World:
    """The group of this process."""

    def __init__(self) -> None:
        self._group: Group | None = None
        self._lost: list[Group] = []  # whose arrays may still be written to

    def begin(self, carrier: Any, timeout_s: float) -> None:
        group = Group(carrier, timeout_s)
        self.end()
        self._group = group

    def end(self) -> None:
        if self._group is not None and self._group.lost:
            self._lost.append(self._group)
        self._group = None

    @property
    def group(self) -> Group:
        if self._group is None:
            raise DistributedError("hg.distributed: init() comes first, or init(carrier)")
        return self._group


_world = _World()


def init(carrier: Carrier | None = None, *, timeout_s: float = 300.0) -> None:
    """Names what carries arrays between processes: a communicator of mpi4py, or another Carrier; None, COMM_WORLD.

    A collective raises WorkerLost where another process does not come to it within `timeout_s`. Raises
    DistributedError where mpi4py is needed and not installed, TypeError for what is no carrier.
    """
    if carrier is None:
        try:
            carrier = import_module("mpi4py.MPI").COMM_WORLD
        except ImportError as error:
            raise DistributedError(
                f"init: mpi4py is not here ({error}): install it beside an MPI, or name a carrier"
            ) from error
    lacks = [name for name in vars(Carrier) if name[0].isupper() and not hasattr(carrier, name)]
    if lacks:
        raise TypeError(
            f"init: a carrier has {', '.join(lacks)}, as mpi4py's communicators; got {type(carrier).__name__}"
        )
    if not timeout_s > 0:
        raise ValueError(f"init: timeout_s must be positive, got {timeout_s}")
    _world.begin(carrier, timeout_s)


def shutdown() -> None:
    """Leaves the group that `init` named, if there is one; nothing is sent. The carrier stays its owner's to end."""
    _world.end()


def rank() -> int:
    """The number of this process, from 0."""
    return _world.group.rank


def size() -> int:
    """How many processes there are."""
    return _world.group.size


def barrier() -> None:
    """Waits until all processes are here."""
    _world.group.agree("barrier")


def all_reduce(x: Tensor, op: str = "sum") -> Tensor:
    """The sum of all processes' tensors (op "sum"), or their "mean", "prod", "max" or "min": a new tensor of each.

    Shape and dtype stay. Floats of 16 and 8 bits are added up and multiplied in f32 and rounded once. The order of
    additions is the carrier's. Integers wrap. A sum of bools is whether any is true, a product whether all are. NaN
    wins in "max" and "min", and -0 is below 0. Raises ValueError for another op, UnsupportedDType for means of integers
    and of bools, and for products, maxima and minima of complex numbers; DistributedError, WorkerLost.
    """
    group, who = _world.group, f"all_reduce {op}"
    with group.refusals(who):
        values = _values(who, x)
        if not isinstance(op, str) or op not in REDUCTIONS:
            raise ValueError(f"all_reduce: op must be one of {', '.join(REDUCTIONS)}, got {op!r}")
        kinds = REDUCTIONS[op]
        if x.dtype.kind not in kinds:
            raise UnsupportedDType(f"{who}: of {', '.join(kinds)} dtypes only, got {x.dtype}")
        what = _told(who, x)
    with group.agreed(what):
        if values.size:
            values = reduced(values.reshape(-1), op, group.size, group.reduce(what)).reshape(x.shape)
    return x.executor.tensor(values, x.dtype)


def broadcast(x: Tensor, root: int = 0) -> Tensor:
    """The tensor of the process `root`: itself there, elsewhere a new one of the shape and dtype of x.

    Raises ValueError for a root that is none, DistributedError, WorkerLost.
    """
    group, who = _world.group, f"broadcast from {root!r}"
    with group.refusals(who):
        values = _values(who, x)
        index = operator.index(root)
        if not 0 <= index < group.size:
            raise ValueError(f"broadcast: root must be from 0 to {group.size - 1}, got {root}")
        what = _told(who, x)
    with group.agreed(what):
        if values.size:
            group.run(what, group.carrier.Ibcast, _bytes(values), index)
    return x if index == group.rank else x.executor.tensor(values)


def all_gather(x: Tensor) -> Tensor:
    """All processes' tensors, along a new first axis: (size, *x.shape). Raises DistributedError, WorkerLost."""
    group, who = _world.group, "all_gather"
    with group.refusals(who):
        values = _values(who, x)
        parts = np.empty((group.size, *x.shape), values.dtype)
        what = _told(who, x)
    with group.agreed(what):
        if values.size:
            group.run(what, group.carrier.Iallgather, _bytes(values), _bytes(parts))
    return x.executor.tensor(parts)


def _values(who: str, x: Any) -> np.ndarray:
    """A tensor's elements on the host, an array of their own."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{who}: x must be a Tensor, got {type(x).__name__}")
    return np.ascontiguousarray(x.to_numpy()).reshape(x.shape)


def _bytes(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1).view(np.uint8)


def _told(who: str, x: Tensor) -> str:
    return f"{who} of {x.dtype} {x.shape}"
