"""Streams and memory of other libraries: what PyTorch, CuPy and cuda.core enqueue on the same card, ordered with ours.

Our stream stays the one that everything of ours is ordered by: an event is recorded behind what one stream holds, and
the other waits for it on the card, the host for neither. So graphs, pinned memory and the pool know of one stream only.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from hologram.backends.cuda.context import Context
from hologram.foundation.errors import InteropError

LEGACY = 1  # CU_STREAM_LEGACY: the default stream, which libraries also call 0
NAMED = (LEGACY, 2)  # and CU_STREAM_PER_THREAD: of whichever context is current
DEFAULT = (None, 0, *NAMED)
# What cuStreamGetCtx answers for a handle that is no stream, or no more: no word on the device itself.
NO_STREAM = ("CUDA_ERROR_INVALID_HANDLE", "CUDA_ERROR_INVALID_CONTEXT", "CUDA_ERROR_CONTEXT_IS_DESTROYED")


def follow(context: Context, stream: Any) -> None:
    """Has our stream wait for all that another holds."""
    order(context, stream_of(context, stream), context.stream)


def lead(context: Context, stream: Any) -> None:
    """Has another stream wait for all that ours holds."""
    order(context, context.stream, stream_of(context, stream))


def follow_users(context: Context, streams: Sequence[Any]) -> None:
    """Has our stream wait for what streams hold that were named some time ago.

    The driver is not asked about one by its handle, which may have been destroyed since. The default stream waits for
    all others of the context that are not made to run beside it; where it is not all that was named, the host waits.
    """
    if all(stream in DEFAULT for stream in streams):
        order(context, LEGACY, context.stream)
    else:
        context.call(context.driver.cuCtxSynchronize)


def stream_of(context: Context, stream: Any) -> Any:
    """The driver's handle of a stream: a number, an object of PyTorch, CuPy or cuda.core, or None for the default one.

    Raises InteropError for what is no stream, and for one of another context.
    """
    handle: Any
    # https://nvidia.github.io/cuda-python/cuda-core/latest/interoperability.html
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        said: Any = protocol() if callable(protocol) else protocol
        handle = said[1] if isinstance(said, (tuple, list)) and len(said) == 2 else None
    else:
        named = _attribute(stream)
        handle = LEGACY if stream is None else stream if named is None else getattr(stream, named)
    name = context.library.name
    if isinstance(handle, context.driver.CUstream):
        handle = int(handle)
    if isinstance(handle, bool) or not hasattr(handle, "__index__") or operator.index(handle) < 0:
        kind = type(stream).__name__
        raise InteropError(
            f"{name}: a stream is a handle, or has __cuda_stream__, cuda_stream or a stream's ptr; got {kind}"
        )
    handle = operator.index(handle) or LEGACY
    if handle not in NAMED:
        owner = _owner(context, handle)
        if int(owner) != int(context.handle):
            raise InteropError(f"{name}: the stream {handle:#x} is of another context than {context.name}'s")
    return handle


def _attribute(stream: Any) -> str | None:
    """PyTorch's or CuPy's, the second of streams alone: arrays and buffers have a `ptr` too."""
    if hasattr(stream, "cuda_stream"):
        return "cuda_stream"
    return "ptr" if type(stream).__name__.endswith("Stream") and hasattr(stream, "ptr") else None


def _owner(context: Context, handle: int) -> Any:
    """The context of another library's stream; a handle of theirs that is no good does not lose our device."""
    context.check()
    with context.current():
        status, *values = context.driver.cuStreamGetCtx(handle)
    if status and status.name in NO_STREAM:
        name = context.library.name
        raise InteropError(
            f"{name}: {handle:#x} is no stream, or no more: cuStreamGetCtx answers {status.name}"
        )
    if status:
        raise context.failed(status, "cuStreamGetCtx")
    return values[0]


def order(context: Context, first: Any, then: Any) -> None:
    """Has what one stream is given from here on wait for what another was given before."""
    call, driver = context.call, context.driver
    with context.lock:
        event = call(driver.cuEventCreate, driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        owned = context.own(driver.cuEventDestroy, event)
        call(driver.cuEventRecord, event, first)
        call(driver.cuStreamWaitEvent, then, event, 0)
        context.give_back(owned)  # which the driver does when the event has passed


def wait_between(first: Context, then: Context) -> None:
    """Has the stream of one device wait for all that another's holds."""
    with first.lock:
        event = first.call(first.driver.cuEventCreate, first.driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        owned = first.own(first.driver.cuEventDestroy, event)
        first.call(first.driver.cuEventRecord, event, first.stream)
    then.call(then.driver.cuStreamWaitEvent, then.stream, event, 0)
    with first.lock:
        first.give_back(owned)


def require_here(context: Context, address: int) -> None:
    """Raises InteropError unless an address is of memory of this device."""
    which = context.driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    ordinal = int(context.call(context.driver.cuPointerGetAttribute, which, address))
    if ordinal != context.ordinal:
        name = context.library.name
        raise InteropError(
            f"{name}: the memory at {address:#x} is of device {ordinal}, not of {context.ordinal}"
        )
