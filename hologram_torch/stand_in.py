"""Classes in the place of PyTorch's own in C++, which make nothing of use for devices written in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_Meta: Any = type(torch._C.Generator)  # a class of its own since 2.13


class StandIn(_Meta):
    """The class of a class that stands in the place of its base: what PyTorch makes counts as its instance too."""

    def __instancecheck__(self, x: Any) -> bool:
        base = self.__base__
        return type.__instancecheck__(self, x) if isinstance(base, StandIn) else isinstance(x, base)

    def __subclasscheck__(self, other: type) -> bool:
        base = self.__base__
        return type.__subclasscheck__(self, other) if isinstance(base, StandIn) else issubclass(other, base)


def before_loading(theirs: Any, load: Callable[[], Any], ours: Callable[[Any], bool], default: Any) -> type:
    """Stands in the place of a class until all is loaded, which its first object of the device asks for."""
    name = theirs.__name__

    def new(cls: type, device: Any = default, *args: Any, **kwargs: Any) -> Any:
        if not ours(device):
            return theirs(*(() if device is default else (device,)), *args, **kwargs)
        load()
        return getattr(torch, name)(device, *args, **kwargs)

    return StandIn(name, (theirs,), {"__new__": new, "__module__": "torch", "__doc__": theirs.__doc__})
