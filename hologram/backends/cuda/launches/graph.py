"""Launches in order as one CUDA graph: the driver gets them in one call, with next to nothing to do for each.

To make a graph costs more than to launch what is in it, so the first calls launch one by one: of the sets of memory
that a replay meets, many come but once.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from hologram.backends.cuda.context import Context
from hologram.backends.cuda.kernel import Recorded
from hologram.foundation.errors import OutOfMemory
from hologram.machine.kernel import Launch, in_turn

CALLS_BEFORE = 2  # a guess: to be measured on a card
SHORTEST = 2  # launches that a graph is worth


def sequence(context: Context, launches: Sequence[Launch]) -> Launch:
    """One call for launches in order; neighbours that are kernels become graphs."""
    calls: list[Launch] = []
    for recorded, group in itertools.groupby(launches, lambda launch: type(launch) is Recorded):
        members: Any = list(group)
        graph = recorded and len(members) >= SHORTEST
        calls += [Graph(context, members)] if graph else members
    return in_turn(calls)


class Graph:
    """A launch of kernels in order. Any thread may call it: they take turns, for the driver locks no graph."""

    def __init__(self, context: Context, launches: Sequence[Recorded]) -> None:
        self.context = context
        self.launches = tuple(launches)
        self._one_by_one = in_turn(launches)
        self._turns = threading.RLock()
        self._calls = 0
        self._launch: Callable[..., Any] = context.driver.cuGraphLaunch
        self.executable: Any = None

    def __call__(self) -> None:
        context = self.context
        if context.unusable is not None:
            raise context.unusable
        with self._turns:
            if self.executable is None and not self._ready():
                self._one_by_one()
                return
            status = self._launch(self.executable, context.stream)[0]
        if status:
            raise context.failed(status, "cuGraphLaunch")

    def _ready(self) -> bool:
        """Makes the executable graph, unless it is too early for that, or there is no room now."""
        self._calls += 1
        if self._calls <= CALLS_BEFORE:
            return False
        try:
            with self.context.lock:
                self.executable = self._made()
        except OutOfMemory:
            self._calls = 0
            return False
        return True

    def _made(self) -> Any:
        """An executable graph: each kernel after the one before. It copies their parameters."""
        driver, call = self.context.driver, self.context.call
        graph = call(driver.cuGraphCreate, 0)
        try:
            before: list[Any] = []
            for launch in self.launches:
                node = call(driver.cuGraphAddKernelNode, graph, before, len(before), self._node(launch))
                before = [node]
            executable = call(driver.cuGraphInstantiate, graph, 0)
        finally:
            call(driver.cuGraphDestroy, graph)
        self.owned = self.context.own(driver.cuGraphExecDestroy, executable)
        return executable

    def _node(self, launch: Recorded) -> Any:
        a, driver = launch.arguments, self.context.driver
        node = driver.CUDA_KERNEL_NODE_PARAMS()
        node.kern = driver.CUkernel(int(a.function))
        node.ctx = self.context.handle
        node.gridDimX, node.gridDimY, node.gridDimZ = a.grid_x, a.grid_y, a.grid_z
        node.blockDimX, node.blockDimY, node.blockDimZ = a.block_x, a.block_y, a.block_z
        node.sharedMemBytes = a.shared_bytes
        node.kernelParams = a.parameters
        return node

    def __del__(self) -> None:
        if self.executable is not None:
            self.context.let_go(self.owned)
