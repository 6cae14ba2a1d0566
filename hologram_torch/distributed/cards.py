"""NCCL for tensors of the device that lie on CUDA cards: PyTorch's engine, given their memory and their queue.

A tensor of PyTorch's device "cuda" is made over the memory of ours, and the executor's queue is the current stream of
PyTorch while a collective is asked for and waited for. NCCL's own stream begins behind what that stream holds, and
waiting has that stream go on behind NCCL's: so both orders are events on the card, and no byte is copied.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore  # pyright: ignore[reportPrivateImportUsage]

from hologram.machine.layout import Layout
from hologram_torch.device.devices import devices
from hologram_torch.distributed.engine import Engine, Handed
from hologram_torch.tensors.memory import hologram_tensor, local, record

CUDA = torch.device("cuda")
DLPACK_CUDA = 2  # kDLCUDA
NAME = "nccl"
BACKEND = "cuda"  # of hologram; PyTorch numbers its cards in the same way
APART = "no CUDA card"  # what a process says that has none; of those that have one, others say why not


def reached(group: Any, tensors: Sequence[torch.Tensor]) -> bool:
    """Whether a group has NCCL, and these tensors of the device lie where it reaches."""
    if CUDA not in group._device_types or group._get_backend(CUDA).name() != NAME:
        return False
    return all(hologram_tensor(x).executor.device.dlpack_device[0] == DLPACK_CUDA for x in tensors)


def lent(x: torch.Tensor) -> Handed:
    """A tensor of PyTorch's CUDA over the memory of ours, or of a contiguous copy on the card.

    NCCL knows no complex numbers: it gets their parts, along an axis more.
    """
    shared = x.is_contiguous() and not (x.is_conj() or x.is_neg())
    plain = x if shared else x.detach().resolve_conj().resolve_neg().contiguous()
    own = hologram_tensor(plain)
    parts = own.dtype.is_complex
    layout = Layout.contiguous(own.dtype.part if parts else own.dtype, own.shape + (2,) * parts)
    entry, _ = record(layout, own.executor.device.dlpack_device[1], DLPACK_CUDA)
    address = own.buffer.ptr + own.offset * own.dtype.itemsize
    return local.imported(entry, address, own.buffer.shared_block()), None if shared else plain


def queue(tensors: Sequence[torch.Tensor]) -> AbstractContextManager[Any]:
    """A context in which the queue of the tensors' executor is PyTorch's current stream."""
    device = hologram_tensor(tensors[0]).executor.device
    index = device.dlpack_device[1]
    return torch.cuda.stream(torch.cuda.ExternalStream(device.queue_handle, device=index))


NCCL = Engine(hand=lent, turn=queue, queued=True, means=True)


def card() -> tuple[str, str]:
    """Which card this process computes on, as no other is called; or nothing, and why NCCL cannot have it."""
    place = devices.place(devices.current)
    if place.backend != BACKEND:
        return "", APART
    if not dist.is_nccl_available():
        return "", "its PyTorch was built without NCCL"
    if not torch.cuda.is_available():
        return "", "its PyTorch reaches no card (torch.cuda.is_available())"
    return str(torch.cuda.get_device_properties(place.number).uuid), ""


def _obstacle(said: list[list[str]]) -> str:
    """Why processes cannot use NCCL, from what each says of its card; nothing if they can."""
    for rank, (card, why) in enumerate(said):
        if not card:
            return f"rank {rank}: {why}"
    cards = [card for card, _ in said]
    for rank, card in enumerate(cards):
        if card in cards[:rank]:
            return f"ranks {cards.index(card)} and {rank} are on one card, which NCCL refuses"
    return ""


def agree(group: Any, timeout: Any, own: tuple[str, str], add: Callable[..., None]) -> None:
    """Adds NCCL to a group where all its processes can have it, each having told the others of its `own` card."""
    store, size = PrefixStore("hologram", group.get_group_store()), group.size()
    store.set(f"card {group.rank()}", "\n".join(own))
    said = store.multi_get([f"card {k}" for k in range(size)])
    obstacle = _obstacle([each.decode().split("\n") for each in said])
    if obstacle:
        if own[1] != APART:
            warnings.warn(
                f"hologram: collectives pass through host memory, not NCCL: {obstacle}",
                RuntimeWarning,
                stacklevel=2,
            )
        return
    engine: Any = dist.ProcessGroupNCCL  # pyright: ignore[reportAttributeAccessIssue]
    options = engine.Options()
    options._timeout = timeout
    add(
        group,
        CUDA,
        dist.ProcessGroup.BackendType.NCCL,
        engine(PrefixStore(NAME, store), group.rank(), size, options),
    )
