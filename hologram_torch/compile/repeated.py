"""Random operators that a backward pass runs again: activation checkpointing in compiled graphs.

PyTorch has the forward graph save the state of random numbers before each such operator (`run_and_save_rng_state`), and
the backward graph run it with that state; its own forms know devices by name. Here a state is a key, a seed and an
offset on the device, so graphs stay whole and nobody waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch._C import DispatchKey
from torch._guards import active_fake_mode
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

from hologram.opset.random import Key
from hologram.runtime.dispatch import deferred
from hologram_torch.compile.graph import HOST, REPEATING, SAVING
from hologram_torch.device.devices import devices
from hologram_torch.device.generator import Stream, Traced, defaults, drawing, drawn_by
from hologram_torch.loading import NAME
from hologram_torch.tensors.memory import hologram_tensor, torch_tensor


def _state(index: int) -> torch.Tensor:
    """What the next operator of a device draws by."""
    executor, traced = devices.executor(index), drawing()
    if not isinstance(traced, Traced):
        stream = traced or defaults[index]._stream
        return torch_tensor(executor.tensor(np.array((stream.seed, stream.drawn), np.uint64)))
    return torch_tensor(traced.key.words + executor.tensor(np.array((0, traced.drawn), np.uint64)))


def saved(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """The state before an operator, and its results."""
    place = next((x for x in args if isinstance(x, torch.Tensor)), None)
    if isinstance(place, FakeTensor) or active_fake_mode() is not None:
        state = torch.empty(2, dtype=torch.uint64, device=NAME)
    else:
        state = _state(devices.index_of(kwargs.get("device") if place is None else place.device))
    return state, operator(*args, **kwargs)


def repeated(state: torch.Tensor, operator: Any, *args: Any, **kwargs: Any) -> Any:
    """The results of an operator that draws by a state."""
    own = hologram_tensor(state)
    with drawn_by(Traced(Key(own)) if deferred() else Stream(*map(int, own.to_numpy()))):
        return operator(*args, **kwargs)


def _is_ours(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether an operator with these arguments runs on the device: before PyTorch 2.13 its own test knows no such."""
    device = kwargs.get("device") or next((x.device for x in args if isinstance(x, torch.Tensor)), HOST)
    return torch.device(device).type == NAME


def _selecting(higher: Any, place: int, own: Callable[..., Any]) -> None:
    """Has a higher-order operator take ours where its operator's arguments, from `place` on, are the device's."""
    theirs = higher.py_kernels[DispatchKey.BackendSelect]

    def select(*args: Any, **kwargs: Any) -> Any:
        return (own if _is_ours(args[place:], kwargs) else theirs)(*args, **kwargs)

    higher.py_kernels[DispatchKey.BackendSelect] = select
    higher._dispatch_cache.clear()
    # What it does with fake tensors (in one table or, before PyTorch 2.13, the other) and in a trace refers to the one
    # before.
    table: Any = higher.python_key_table
    others = table[ProxyTorchDispatchMode], table.get(FakeTensorMode), registered_hop_fake_fns.get(higher)
    for function in filter(None, others):
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name == "impl_backend_select":
                cell.cell_contents = select


def settle() -> None:
    """Has PyTorch's operators take the device."""
    _selecting(SAVING, 1, saved)
    _selecting(REPEATING, 2, repeated)
