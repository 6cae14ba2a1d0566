"""What computes is loaded when the device is first used: making it known costs `import torch` little.

`hologram_torch.computing` imports it all. PyTorch comes here through doors: an operator of the device, a function of
torch.hologram, and those constructors and conversions of PyTorch's that reach the device in other ways. They load all
and go on as if it had been there.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from typing import Any, NoReturn

import torch

from hologram_torch.reach import reach

NAME = "hologram"


def _leaving_modes() -> tuple[Callable[[], Any], ...]:
    from torch.utils._python_dispatch import _disable_current_modes

    return torch._C.DisableTorchFunction, _disable_current_modes


_without_functions, _without_modes = reach(
    "modes",
    "torch.utils._python_dispatch._disable_current_modes",
    "the device must be used once before a mode is entered (torch.device(...) as a context, fake tensors)",
    _leaving_modes,
    (nullcontext, nullcontext),
)


class Whole:
    """All of hologram_torch, loaded once."""

    def __init__(self) -> None:
        self.loaded = False
        self._doors: list[tuple[Any, str, Any]] = []  # owners, attributes, and what these were

    def __call__(self) -> Any:
        """The module `hologram_torch.computing`, loaded if it was not."""
        if self.loaded:
            return sys.modules["hologram_torch.computing"]
        # Whoever comes first may be in a mode: tensors that modules make would be fake, or on another device.
        with _without_functions(), _without_modes(), torch.inference_mode(False):
            module = import_module("hologram_torch.computing")
        # That a thread runs its own backward passes, see tensors/memory.py, was said within and is undone with a mode.
        torch.autograd.set_multithreading_enabled(False)
        return module

    def door(self, owner: Any, name: str, opened: Any) -> None:
        """Puts something in the place of an attribute until all is loaded."""
        self._doors.append((owner, name, getattr(owner, name, missing)))
        setattr(owner, name, opened)

    def before(self, owner: Any, name: str, reaches: Callable[..., bool]) -> None:
        """Has all be loaded before a function is called whose arguments reach the device; there need be none yet."""
        own = getattr(owner, name, missing)

        @functools.wraps(own)
        def called(*args: Any, **kwargs: Any) -> Any:
            if not reaches(*args, **kwargs):
                return own(*args, **kwargs)
            self()
            return getattr(owner, name)(*args, **kwargs)

        self.door(owner, name, called)

    def open(self) -> None:
        """Takes the doors away: what stood in their places is there again."""
        for owner, name, own in self._doors:
            delattr(owner, name) if own is missing else setattr(owner, name, own)
        self._doors.clear()


def missing() -> NoReturn:
    """Stands for what an owner had not."""
    raise NotImplementedError


whole = Whole()


def is_it(x: Any) -> bool:
    """Whether it is the device, or its name."""
    if isinstance(x, str):
        return x.partition(":")[0] == NAME
    return isinstance(x, torch.device) and x.type == NAME


def named(*args: Any, **kwargs: Any) -> bool:
    """Whether the device is among arguments."""
    return any(map(is_it, (*args, *kwargs.values())))


def any_operator(overload: Any, *args: Any, **kwargs: Any) -> Any:
    """An operator of the device that has no kernel: perhaps none was loaded."""
    if whole.loaded:
        return whole().unknown(overload, *args, **kwargs)
    whole()
    if not whole.loaded:
        raise RuntimeError(f"hologram: {overload} was called while the device was being loaded")
    return overload(*args, **kwargs)


def later(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that is imported when it is called."""

    def called(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module), name)(*args, **kwargs)

    return called
