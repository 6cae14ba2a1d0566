"""Arguments that a compiled graph writes to: a cache, a running mean. Its kernels write where they lie, if they may.

A graph is functional: it gives what an argument becomes, which here takes the argument's memory, as what is donated to
hg.jit does. The argument gets it back after the call, so that whoever holds the tensor or a view of it sees the change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hologram.frontend.jit.compiled import Compiled
from hologram.frontend.jit.jitted import Jitted
from hologram.frontend.tensor import Tensor
from hologram.runtime.memory.ownership import take_back


def are_own(tensors: Sequence[Tensor], count: int) -> bool:
    """Whether the first `count` tensors are in memory that no other of them has, and that nobody else was given."""
    buffers = [t.buffer for t in tensors]
    return len({id(b) for b in buffers}) == len(buffers) and not any(b.shared for b in buffers[:count])


def over_arguments(function: Callable[..., list[Tensor]], tensors: Sequence[Tensor], count: int) -> Compiled:
    """A function compiled such that each of the first `count` results is in the memory of the argument of its number.

    That holds for those that can be; no other result gets an argument's memory, and calls free none.
    """
    donated = list(range(count))
    while True:
        run = Jitted(function, donate=donated).compiled(*tensors)
        others = {source for result, source in run.assembly.donations.items() if result != source}
        if not others:
            return replace(run, donated=())
        donated = [k for k in donated if k not in others]


def settle(target: Tensor, result: Tensor) -> None:
    """Gives an argument what it becomes: its memory back, or a copy where the result is in another."""
    if target.buffer.freed:
        take_back(target.buffer, result.buffer)
    else:
        target.executor.copy(result, target)
