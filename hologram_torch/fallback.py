"""Operators that the device has no kernel for: refused by name, or done on the host where the user asks for it."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from hologram.foundation.config import Config, config
from hologram.runtime.dispatch import deferred
from hologram_torch.kernels.operators import name_of
from hologram_torch.tensors.dtypes import DTYPES, host_tensor
from hologram_torch.tensors.memory import hologram_tensor, is_ours

VARIABLE = Config.torch_fallback.variable


@dataclass
class Fallback:
    """What an operator cost that ran on the host: calls, and bytes copied there and back."""

    name: str
    calls: int = 0
    bytes_moved: int = 0
    by_design: bool = False  # done by LAPACK; see aten/linear_algebra


_counted: dict[str, Fallback] = {}
_lock = threading.Lock()


def fallbacks() -> list[Fallback]:
    """Every operator that ran on the host so far, the most bytes first."""
    return sorted(_counted.values(), key=lambda f: -f.bytes_moved)


def reset_fallbacks() -> None:
    """Begins to count anew, and to say once of each operator that it runs on the host."""
    with _lock:
        _counted.clear()


def allowed() -> bool:
    """Whether the user asks for operators without a kernel to run on the host."""
    return config.torch_fallback


def unknown(overload: Any, *args: Any, **kwargs: Any) -> Any:
    """Any operator without a kernel."""
    name = name_of(overload)
    kind = _not_here(overload, args, kwargs)
    if kind is not None:
        raise NotImplementedError(
            f"hologram, {name}: its results are {kind}, which the device has not; compute it on x.cpu()"
        )
    if not allowed():
        raise NotImplementedError(
            f"hologram has no kernel for {overload.name()}. Set {VARIABLE}=1 to run it on the CPU, which copies its "
            "tensors there and back; torch.hologram.fallbacks() then lists it. Please report it as missing"
        )
    return on_host(overload, args, kwargs)


def _not_here(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """What results would be that the device cannot hold, as far as PyTorch says without computing them."""
    try:
        results = overload(*pytree.tree_map(_meta, args), **pytree.tree_map(_meta, kwargs))
    except (RuntimeError, TypeError, NotImplementedError):
        return None
    tensors = [x for x in pytree.tree_leaves(results) if isinstance(x, torch.Tensor)]
    lacking = next((x.dtype for x in tensors if x.dtype.is_complex and x.dtype not in DTYPES), None)
    if lacking is not None:
        return f"of {lacking}"
    return "sparse tensors" if any(x.layout != torch.strided for x in tensors) else None


def _meta(x: Any) -> Any:
    if isinstance(x, torch.device):
        return torch.device("meta")
    return x.to("meta") if is_ours(x) else x


def on_host(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any], by_design: bool = False) -> Any:
    """Runs an operator on the host. Results that are an argument, are that argument."""
    name = name_of(overload)
    if deferred():
        raise RuntimeError(f"hologram, {name}: it runs on the host, which a compiled function cannot")
    mine = [x for x in pytree.tree_leaves((args, kwargs)) if is_ours(x)]
    index = mine[0].device.index if mine else 0
    storages: dict[int, torch.Tensor] = {}
    hosts: dict[int, torch.Tensor] = {}
    for x in mine:
        hosts[id(x)] = _down(x, storages, _writes(overload))
    origin = {id(host): x for x in mine if (host := hosts[id(x)]) is not None}
    before = {key: flat.clone() if _writes(overload) else flat for key, flat in storages.items()}

    def down(x: Any) -> Any:
        if is_ours(x):
            return hosts[id(x)]
        return torch.device("cpu") if isinstance(x, torch.device) and x.type == "hologram" else x

    def up(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        if id(x) in origin:
            return origin[id(x)]
        device = torch.device("hologram", index)
        if x.layout != torch.strided or 0 in x.stride() or torch.empty_like(x).stride() == x.stride():
            return x.to(device)
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device).copy_(x)  # gaps stay

    result = overload(*pytree.tree_map(down, args), **pytree.tree_map(down, kwargs))
    if _writes(overload):
        for x in mine:
            host = hosts[id(x)]
            if host.shape != x.shape:  # outputs may have been resized
                x.resize_(host.shape)
                x.as_strided_(host.shape, host.stride())
                x.copy_(host)
            elif not torch.equal(storages[_key(x)].view(torch.uint8), before[_key(x)].view(torch.uint8)):
                x.copy_(host)
    moved = sum(flat.nbytes for flat in storages.values())
    moved += sum(r.nbytes for r in pytree.tree_leaves(result) if isinstance(r, torch.Tensor))
    _count(name, moved, by_design)
    return pytree.tree_map(up, result)


def _down(x: torch.Tensor, storages: dict[int, torch.Tensor], writes: bool) -> torch.Tensor:
    """The tensor on the host; what shares memory on the device shares it there.

    Where the operator writes, its memory is PyTorch's own, since an output without elements grows.
    """
    key = _key(x)
    flat = storages.get(key)
    own = hologram_tensor(x)
    if flat is None:
        whole = type(own)(own.buffer, own.buffer.kind.layout)
        flat = host_tensor(whole.to_numpy().reshape(-1))
        flat = storages[key] = flat.clone() if writes else flat
    if flat.dtype != x.dtype:
        flat = flat.view(x.dtype)
    return flat.as_strided(x.shape, x.stride(), x.storage_offset())


def _key(x: torch.Tensor) -> int:
    return x.untyped_storage()._cdata


def _writes(overload: Any) -> bool:
    return any(a.alias_info is not None and a.alias_info.is_write for a in overload._schema.arguments)


def _count(name: str, moved: int, by_design: bool) -> None:
    with _lock:
        entry = _counted.get(name)
        if entry is None:
            entry = _counted[name] = Fallback(name, by_design=by_design)
            if not by_design:
                warnings.warn(f"hologram: aten::{name} runs on the CPU ({VARIABLE}=1)", stacklevel=2)
        entry.calls += 1
        entry.bytes_moved += moved


_by_design: dict[Any, Callable[..., bool]] = {}


def by_design(overload: Any, *args: Any, **kwargs: Any) -> bool:
    """Whether LAPACK on the host does an operator for such arguments."""
    decides = _by_design.get(overload)
    return decides is not None and decides(*args, **kwargs)


def by_lapack(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs an operator on the host; where that is not the device, says so once unless HOLOGRAM_HOST_LINALG=1."""
    ours = next((x for x in pytree.tree_leaves((args, kwargs)) if is_ours(x)), None)
    device = None if ours is None or deferred() else hologram_tensor(ours).executor.device.info
    name = name_of(overload)
    if (
        device is not None
        and not device.limits.host_resident
        and not config.host_linalg
        and name not in _counted
    ):
        warnings.warn(
            f"hologram: {device.backend} ({device.name}) has no kernels for aten::{name}: LAPACK does it on the host, "
            f"with one copy each way ({Config.host_linalg.variable}=1 says that this is known)",
            stacklevel=2,
        )
    return on_host(overload, args, kwargs, by_design=True)


def on_host_by_design(overload: Any, decides: Callable[..., bool]) -> None:
    """Says that LAPACK does an operator wherever `decides` holds of its arguments."""
    _by_design[overload] = decides
