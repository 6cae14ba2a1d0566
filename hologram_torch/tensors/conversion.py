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
from torch.utils import _pytree as pytree

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
    if isinstance(self, torch.jit.ScriptModule):
        return _rewritten(self, fn)
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


def _rewritten(self: nn.Module, fn: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
    """A module of TorchScript with other tensors, shared as before; C++ holds them, so that none can be exchanged.

    An optimiser that was made before goes on with those of before.
    """
    known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # the tensors too, whose ids these are
    modules: list[Any] = list(self.modules())
    for module in modules:
        for tensors in (module._parameters, module._buffers):
            for name, x in list(tensors.items()):
                if x is not None and id(x) not in known:
                    known[id(x)] = (x, _converted(x, fn))
                if x is not None:
                    tensors[name] = known[id(x)][1]
    for module in modules:  # also where they stand under other names: weights in the list that an LSTM keeps
        for name in _attributes(module):
            value = module._c.getattr(name)
            made = pytree.tree_map(lambda x: known[id(x)][1] if id(x) in known else x, value)
            if any(x is not y for x, y in zip(*map(pytree.tree_leaves, (value, made)), strict=True)):
                module._c.setattr(name, made)
    return self


def _attributes(module: Any) -> set[str]:
    """What methods of a module of TorchScript read that holds tensors."""
    graphs = (module._c._get_method(name).graph for name in module._c._method_names())
    nodes = (node for graph in graphs for node in graph.findAllNodes("prim::GetAttr"))
    return {
        n.s("name") for n in nodes if "Tensor" in str(n.output().type()) and module._c.hasattr(n.s("name"))
    }


def _converted(x: torch.Tensor, fn: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        made = fn(x)
    if isinstance(x, nn.Parameter):
        made = nn.Parameter(made, x.requires_grad)
    elif made is not x:
        made.requires_grad_(x.requires_grad)  # parameters of a module that was loaded are plain tensors
    if x.grad is not None and made is not x:
        made.grad = fn(x.grad)
    return made


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
