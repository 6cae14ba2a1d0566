"""What makes, copies and views memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import hologram as hg
from hologram.atlas.arithmetic import convert
from hologram.frontend.jit.traced import Storage
from hologram.frontend.tensor import Tensor
from hologram.machine.axes import row_major
from hologram.machine.layout import Layout
from hologram.runtime.dispatch import deferred
from hologram_torch.device.devices import devices
from hologram_torch.kernels.numbers import element
from hologram_torch.kernels.operators import LOOP, operator
from hologram_torch.kernels.overlap import refuse_overlap
from hologram_torch.kernels.plain import Plain
from hologram_torch.kernels.registry import implements, override, register
from hologram_torch.kernels.views import register_compiled
from hologram_torch.native import SLOWER
from hologram_torch.reach import reach
from hologram_torch.redispatch import redispatched
from hologram_torch.tensors.dtypes import DTYPES, host_array, host_tensor
from hologram_torch.tensors.mapped import release
from hologram_torch.tensors.memory import (
    HOST_KEYS,
    empty,
    hologram_tensor,
    is_ours,
    refuse_pinned,
    torch_tensor,
    whole_of,
)
from hologram_torch.tensors.transfer import across
from hologram_torch.watch import unread

# Views: the host's kernels look at sizes, strides and the storage only, and keep the key set of what they are given.
VIEWS = (
    "as_strided",
    "view",
    "_reshape_alias",
    "unfold",
    "set_.source_Storage",
    "set_.source_Tensor",
    "set_.source_Storage_storage_offset",
)


def _view(name: str) -> Any:
    run = redispatched(operator(name))

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return run(HOST_KEYS, *args, **kwargs)

    return kernel


_compiled = reach("view-kernels", "its stable C interface for operators", SLOWER, register_compiled, ())
for _name in VIEWS:
    if _name not in _compiled:
        register(_name, _view(_name))

_set_storage = _view("set_.source_Storage_storage_offset")


def _index(device: torch.device | None) -> int:
    if device is None or device.index is None:
        return devices.current
    return device.index


def _new(size: Sequence[int], stride: tuple[int, ...] | None, dtype: Any, device: Any) -> torch.Tensor:
    if size and min(size) < 0:
        raise RuntimeError(f"hologram, empty: Trying to create tensor with negative dimension: {list(size)}")
    return empty(tuple(size), stride, dtype, _index(device))


def _empty(
    size: Sequence[int],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: torch.device | None = None,
    memory_format: torch.memory_format | None = None,
    pin_memory: Any = None,
) -> torch.Tensor:
    refuse_pinned(pin_memory)
    if layout not in (None, torch.strided):
        raise NotImplementedError(f"hologram, empty: tensors are strided, got {layout}")
    if memory_format in (None, torch.contiguous_format, torch.preserve_format):
        return _new(size, None, dtype, device)
    like = torch.empty(size, device="meta", memory_format=memory_format)
    return _new(size, like.stride(), dtype, device)


def _empty_strided(
    size: Sequence[int], stride: Sequence[int], *, dtype: Any = None, device: Any = None, **others: Any
) -> torch.Tensor:
    refuse_pinned(others.get("pin_memory"))
    return _new(size, tuple(stride), dtype, device)


register("empty.memory_format", _empty, recorded=True)
register("empty_strided", _empty_strided, recorded=True)


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Copies into a tensor, converting and broadcasting: within a device, between devices, to and from the host."""
    if target.is_conj():  # bits of both, which nobody has resolved
        _copy_from(source.conj(), target.conj())
        return target
    if target.is_neg():
        _copy_from(torch.ops.aten._neg_view(source), torch.ops.aten._neg_view(target))
        return target
    if is_ours(target):
        source = source.resolve_conj().resolve_neg()
        refuse_overlap("copy_", [target], [source])
        if not target.numel():  # where there is nothing to copy shapes matter all the same
            _refuse_others(source, target)
            return target
        copy_into(hologram_tensor(target), source)
    else:
        tensor = hologram_tensor(source.resolve_conj().resolve_neg())
        _known(tensor, "copy to the host")
        unread.read(tensor.executor)
        if _alike(target, source):
            tensor.to_numpy(out=host_array(target))
        else:
            target.copy_(host_tensor(tensor.to_numpy()))
    return target


def _alike(target: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether a tensor on the host can take a source's bytes as they come."""
    same = target.dtype == source.dtype and target.shape == source.shape
    return same and target.device.type == "cpu" and target.is_contiguous() and not target.is_neg()


def _refuse_others(source: torch.Tensor, target: torch.Tensor) -> None:
    """Raises unless a source broadcasts to a target's shape."""
    try:
        source.expand(target.shape)
    except RuntimeError as error:
        raise RuntimeError(f"hologram, copy_: {error}") from None


def copy_into(target: Tensor, source: torch.Tensor) -> None:
    """Copies elements from a tensor of PyTorch's, wherever it lies."""
    if is_ours(source):
        tensor = hologram_tensor(source)
        if type(tensor.buffer) is Storage and tensor.buffer.value is None:
            return  # elements that nobody wrote, of a trace, which would ask for them
        if tensor.executor is target.executor:
            target.executor.copy(tensor, target)
            return
        if tensor.dtype in target.executor.limits.dtypes and not deferred():
            return across(tensor, target)
        given = array = tensor.to_numpy()
    elif _beside(source, target):
        move_to_device_of = target.executor.from_dlpack(
            source.detach().resolve_conj().resolve_neg(), copy=None
        )
        target.executor.copy(move_to_device_of, target)
        # Whoever copied may write to the source at once, on that stream.
        target.executor.device.hand_over(_stream(source.device))
        return
    else:
        given = array = host_array(source if source.device.type == "cpu" else source.cpu())
    if not target.size:
        return
    if array.dtype != target.dtype.numpy and array.size <= target.size:
        with np.errstate(all="ignore"):
            array = convert(target.dtype, array)  # as the device does
    if not deferred() and array.shape == target.shape and target.layout is target.buffer.kind.layout:
        target.buffer.from_numpy(array)
        release(given)
        return
    target.executor.copy(target.executor.tensor(array), target)


def _beside(source: Any, target: Tensor) -> bool:
    """Whether another library's tensor lies in memory of the target's own device, which then copies it by itself."""
    if source.device.type == "cpu" or deferred():
        return False
    kind, index = source.__dlpack_device__()
    return (int(kind), int(index)) == target.executor.device.dlpack_device


def _stream(device: torch.device) -> Any:
    """The stream that PyTorch enqueues on now, for a device of CUDA's; others' are waited for."""
    return torch.cuda.current_stream(device) if device.type == "cuda" else None


def _known(x: Tensor, what: str) -> None:
    if deferred():
        raise RuntimeError(f"hologram: {what}: the elements are not known while a function is compiled")


def _local_scalar_dense(x: torch.Tensor) -> Any:
    tensor = hologram_tensor(x)
    unread.read(tensor.executor)
    return tensor.item()


def _copied(x: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """A tensor like x with the source's elements; PyTorch's own clones x first, which a graph may not have written."""
    return torch.empty_like(x).copy_(source, non_blocking)


# Its memory may be given to others as soon as nobody holds it: one queue runs everything in order.
register("record_stream", lambda x, stream: None)
register("copy", _copied)
register("_copy_from", _copy_from, recorded=True)
_copied_with_bits = Plain("_copy_from", _copy_from)
for _key in ("Negative", "Conjugate"):
    # Whose fallbacks hand over a copy of the target, for the schema tells no writes; and the short way, which knows
    # copies by sizes and strides, does not look at bits.
    override("_copy_from", lambda keys, *copy: _copied_with_bits(*copy), _key)
register("_copy_from_and_resize", lambda source, target: _copy_from(source, target.resize_(source.shape)))
register("_local_scalar_dense", _local_scalar_dense)


def _resize(tensor: torch.Tensor, size: Sequence[int], *, memory_format: Any = None) -> torch.Tensor:
    """Another shape; the memory is replaced by a larger one, which begins with the same elements, where it must be."""
    size = tuple(size)
    if size == tuple(tensor.shape) and memory_format in (None, torch.preserve_format):  # strides stay
        return tensor
    kept = memory_format in (None, torch.contiguous_format, torch.preserve_format)
    like = None if kept else torch.empty(size, device="meta", memory_format=memory_format)
    stride = row_major(size) if like is None else like.stride()
    needed = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 0
    own = hologram_tensor(tensor)
    whole = whole_of(own.buffer)
    held = whole.size * whole.dtype.itemsize // own.dtype.itemsize
    if needed + own.offset <= held:
        return _set_storage(tensor, tensor.untyped_storage(), own.offset, size, stride)
    larger = own.executor.empty((own.offset + needed,), own.dtype)
    if held:
        own.executor.copy(type(own)(own.buffer, Layout.contiguous(own.dtype, (held,))), larger[:held])
    return _set_storage(tensor, torch_tensor(larger).untyped_storage(), own.offset, size, stride)


register("resize_", _resize)


@implements("clone", by_class=True)
def clone(x: Tensor, memory_format: Any = None) -> Tensor:
    """Copied because the result may not be the argument."""
    return x


def _filled(x: torch.Tensor, value: Any) -> torch.Tensor:
    alone = tuple(
        0 if not step and n > 1 else slice(None) for n, step in zip(x.shape, x.stride(), strict=True)
    )
    target = hologram_tensor(x[alone] if 0 in alone else x)  # each element once, though axes repeat it
    if isinstance(value, torch.Tensor):
        if value.ndim:
            raise RuntimeError(
                f"hologram, fill_: only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions."
            )
        if is_ours(value):
            target.executor.copy(hologram_tensor(value), target)
            return x
        value = value.item()
    fill(target, value)
    return x


def fill(target: Tensor, value: bool | int | float) -> None:
    """Writes a number everywhere, converted as PyTorch does; raises RuntimeError where the dtype does not hold it."""
    target[...] = element(value, target)


register("fill_.Scalar", _filled, recorded=True)
register("fill_.Tensor", _filled, recorded=True)
register("zero_", lambda x: _filled(x, 0), recorded=True)


# PyTorch makes these of `empty` and a fill; here each is one call.

INFERRED = {bool: torch.bool, int: torch.int64, complex: torch.complex64}  # a float's is the default


def _full(
    size: Sequence[int], value: bool | int | float, *, dtype: torch.dtype | None = None, **options: Any
) -> torch.Tensor:
    return _filled(_empty(size, dtype=dtype or INFERRED.get(type(value)), **options), value)


def _constant(value: int) -> Callable[..., torch.Tensor]:
    return lambda size, **options: _filled(_empty(size, **options), value)


def _taking_after(fill: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A function of sizes as one that takes dtype and device from a tensor where they are not given."""

    def alike(
        x: torch.Tensor, *given: Any, dtype: Any = None, device: Any = None, **options: Any
    ) -> torch.Tensor:
        return fill(*given, dtype=dtype or x.dtype, device=device or x.device, **options)

    return alike


register("full", _full, recorded=True)
register("zeros", _constant(0), recorded=True)
register("ones", _constant(1), recorded=True)
register("new_full", _taking_after(torch.full), recorded=True)
register("new_zeros", _taking_after(torch.zeros), recorded=True)
register("new_ones", _taking_after(torch.ones), recorded=True)
register("full_like", lambda x, value, **options: torch.empty_like(x, **options).fill_(value), recorded=True)
register("zeros_like", lambda x, **options: torch.empty_like(x, **options).zero_(), recorded=True)
register("ones_like", lambda x, **options: torch.empty_like(x, **options).fill_(1), recorded=True)


@implements("cat", by_class=True)
def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Tensors of shape (0,) are left out, whatever the others' shape: so it was before tensors could be empty."""
    for position, x in enumerate(tensors):
        if not x.ndim:
            raise RuntimeError(
                f"hologram, cat: zero-dimensional tensor (at position {position}) cannot be concatenated"
            )
    kept = [x for x in tensors if x.shape != (0,)]
    return hg.concat(kept, axis=dim) if kept else tensors[0]


def _zeros_told(size: Sequence[int], *, dtype: Any = None, device: Any = None, **_: Any) -> torch.Tensor:
    """Of a derivative that is 0 everywhere."""
    return torch.zeros(size, dtype=dtype, device=device)


register("_efficientzerotensor", _zeros_told)


_converted = redispatched(operator("_to_copy"))


def _to_copy(x: torch.Tensor, *, non_blocking: bool = False, **how: Any) -> torch.Tensor:
    """A copy that may go to the host: PyTorch would want pinned memory for one that nobody waits for."""
    result = _moved(x, **how)
    return _converted(LOOP, x, non_blocking=False, **how) if result is None else result


def _moved(
    x: torch.Tensor,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    memory_format: torch.memory_format | None = None,
    **_: Any,
) -> torch.Tensor | None:
    """A tensor that lies row by row, between the host and a device as it is; None for what is more than that."""
    if device is None or dtype not in (None, x.dtype) or memory_format not in (None, torch.preserve_format):
        return None
    if type(x) not in (torch.Tensor, torch.nn.Parameter):  # which may have no shape yet
        return None
    if x.layout != torch.strided or x.is_neg() or x.stride() != row_major(x.shape) or deferred():
        return None
    places = (x.device.type, device.type)
    if places == ("hologram", "cpu"):
        target = torch.empty(x.shape, dtype=x.dtype)
    elif places == ("cpu", "hologram") and x.dtype in DTYPES:
        target = _new(x.shape, None, x.dtype, device)
    else:
        return None
    return _copy_from(x, target)


register("_to_copy", _to_copy, recorded=True)
