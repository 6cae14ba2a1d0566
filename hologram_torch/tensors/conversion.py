"""Modules that move between the host and the device: their parameters stay the same objects, and tied ones tied.

Where parameters move to CUDA, PyTorch exchanges what is in them; for other devices it makes new ones, which would part
those that modules share and leave optimisers with the old ones. Swapping them, as torch.__future__ offers for all
moves, keeps both; it fails for parameters that others refer to weakly, which are then replaced wherever they stand.
Either way a parameter without a shape yet, a lazy module's, would become one of any kind: it is told again what it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from hologram_torch.tensors.memory import is_ours

_apply = nn.Module._apply

Places = list[tuple[nn.Module, str]]  # where one parameter stands


def moves(module: nn.Module, function: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    """Whether a conversion takes a module from or to the device."""
    for parameter in module.parameters():
        with torch.no_grad():
            probe = torch.empty(0, dtype=parameter.dtype, device=parameter.device)
            return is_ours(parameter) != is_ours(function(probe))
    return False


@functools.wraps(_apply)
def applied(self: nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> nn.Module:
    """nn.Module._apply, with parameters kept where they move."""
    if torch.__future__.get_swap_module_params_on_conversion() or not moves(self, fn):
        return _apply(self, fn, recurse)
    places: dict[int, Places] = {}
    for module in self.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                places.setdefault(id(parameter), []).append((module, name))
    first = [at[0] for at in places.values()]
    lazy = [(*at, type(_parameter(*at))) for at in first if is_lazy(_parameter(*at))]
    _exchanged(self, fn, recurse, list(places.values()))
    for module, name, kind in lazy:
        _parameter(module, name).__class__ = kind
    return self


def _parameter(module: nn.Module, name: str) -> Any:
    return module._parameters[name]


def _exchanged(self: nn.Module, fn: Callable[..., Any], recurse: bool, places: Sequence[Places]) -> None:
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        _apply(self, fn, recurse)
        return
    except RuntimeError as error:
        if error.__cause__ is None:  # PyTorch names one where a tensor could not be exchanged
            raise
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    _apply(self, fn, recurse)
    for (first, own), *others in places:
        for module, name in others:
            module._parameters[name] = first._parameters[own]


_data: Any = torch.Tensor.data


def _replaced(x: torch.Tensor, value: torch.Tensor) -> None:
    """`x.data = value`; from or to the device x stays the same object, and takes its gradient along.

    PyTorch exchanges the memory of tensors between the host and its own devices only.
    """
    if not isinstance(value, torch.Tensor) or is_ours(x) == is_ours(value):
        _data.__set__(x, value)
        return
    kept = nn.Parameter if isinstance(x, nn.Parameter) else torch.Tensor
    moved = torch.Tensor._make_subclass(kept, value.detach(), x.requires_grad)
    if x.grad is not None:
        moved.grad = x.grad.to(value.device)
    moved.__class__ = type(x)  # pyright: ignore[reportAttributeAccessIssue]
    vars(moved).update(vars(x))
    torch.utils.swap_tensors(x, moved)


def keep_parameters() -> None:
    """Has modules and `x.data = y` move like this."""
    replaced: Any = applied
    nn.Module._apply = replaced
    data: Any = property(_data.__get__, _replaced, _data.__delete__, _data.__doc__)
    torch.Tensor.data = data
