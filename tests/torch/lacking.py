"""Loads the device in children of this process, each of which has lost an operator of ATen; prints those that failed.

`python tests/torch/lacking.py [every] [first]` takes one operator in so many of those that loading asks for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import torch

NAMESPACE: Any = type(torch.ops.aten)
own_getattr: Callable[..., Any] = NAMESPACE.__getattr__


def loads(lost: str, asked: set[str]) -> None:
    """Loads all that computes, while ATen has no operator of a name; the names that were asked for are added."""
    vars(torch.ops.aten).pop(lost, None)

    def find(self: Any, name: str) -> Any:
        if self is torch.ops.aten:
            asked.add(name)
            if name == lost:
                raise AttributeError(f"aten has no {name}")
        return own_getattr(self, name)

    NAMESPACE.__getattr__ = find
    import hologram_torch.computing  # noqa: F401


def in_child(run: Callable[[], None]) -> int:
    """The status of a child that ran a function, 0 if nothing was raised."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        run()
    except BaseException as error:  # noqa: BLE001  whatever it is, the operator costs more than itself
        print(f"{type(error).__name__}: {error}", flush=True)
        os._exit(1)
    os._exit(0)


def names() -> list[str]:
    """The operators that loading asks for."""
    read, write = os.pipe()

    def tell() -> None:
        known = [
            name for name, x in vars(torch.ops.aten).items() if isinstance(x, torch._ops.OpOverloadPacket)
        ]
        for name in known:  # asked for by PyTorch itself
            delattr(torch.ops.aten, name)
        asked: set[str] = set()
        loads("", asked)
        os.write(write, " ".join(asked).encode())

    assert in_child(tell) == 0
    os.close(write)
    with os.fdopen(read) as pipe:
        return sorted(name for name in pipe.read().split() if not name.startswith("__"))


if __name__ == "__main__":
    every, first = map(int, (*sys.argv[1:], *("1", "0")[len(sys.argv) - 1 :]))
    found = names()
    failed = [name for name in found[first::every] if in_child(lambda name=name: loads(name, set()))]
    print(len(found), "operators,", len(found[first::every]), "tried; failed:", *failed)
