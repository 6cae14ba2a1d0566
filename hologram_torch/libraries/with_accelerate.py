"""accelerate: its device without a setting, mixed precision, several processes, and where parts of models go.

accelerate (1.15) asks for each device by name. A branch that asks torch.accelerator, in `PartialState.default_device`,
`_prepare_backend`, `set_device`, `get_max_memory` and `get_grad_scaler`, would make all of this needless.
"""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import Any
from unittest import mock

import torch

from hologram_torch import accelerator as ours
from hologram_torch.door import door
from hologram_torch.loading import NAME

KNOWN = frozenset({"cuda", "xpu", "npu"})  # devices of every list that the device belongs in


def is_chosen() -> bool:
    """Whether the device is the machine's accelerator."""
    return ours.current() is not None


def listed(function: Any) -> None:
    """Puts the device on the lists of devices that are constants in a function's code; LookupError without one."""
    code = function.__code__
    constants = tuple(
        (*each, NAME) if isinstance(each, tuple) and set(each) >= KNOWN else each for each in code.co_consts
    )
    if constants == code.co_consts:
        raise LookupError(f"{function.__qualname__} has no list of devices")
    function.__code__ = code.replace(co_consts=constants)


def state(module: ModuleType) -> None:
    """The device of a process, and groups of them: torchrun's processes train one model together."""
    partial: Any = vars(module)["PartialState"]
    several: Any = vars(module)["DistributedType"].MULTI_GPU
    device_of, prepared, placed = partial.default_device, partial._prepare_backend, partial.set_device

    def default_device(self: Any) -> torch.device:
        found = device_of.fget(self)
        return torch.device(NAME, door.current_device()) if found.type == "cpu" and is_chosen() else found

    @functools.wraps(prepared)
    def prepare_backend(self: Any, cpu: bool = False, *args: Any, **kwargs: Any) -> Any:
        backend, kind = prepared(self, cpu, *args, **kwargs)
        alone = kind.value == "NO" and not cpu and is_chosen()
        if alone and int(os.environ.get("LOCAL_RANK", -1)) != -1:
            return backend or NAME, several
        return backend, kind

    @functools.wraps(placed)
    def set_device(self: Any) -> None:
        if self.distributed_type == several and not torch.cuda.is_available() and is_chosen():
            index = self.local_process_index % door.device_count()
            self.device = torch.device(NAME, index)
            door.set_device(index)
        placed(self)

    partial.default_device = property(default_device, doc=device_of.__doc__)
    partial._prepare_backend = prepare_backend
    partial.set_device = set_device


def accelerator(module: ModuleType) -> None:
    """Mixed precision in f16, and models of several processes, of which some may share a device."""
    owner: Any = vars(module)["Accelerator"]
    prepared = owner.prepare_model
    listed(owner.__init__)

    @functools.wraps(prepared)
    def prepare_model(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.device.type != NAME:
            return prepared(self, *args, **kwargs)
        with mock.patch.dict(
            os.environ, ACCELERATE_BYPASS_DEVICE_MAP="true"
        ):  # the process' number is no device's
            return prepared(self, *args, **kwargs)

    owner.prepare_model = prepare_model


def modeling(module: ModuleType) -> None:
    """Memory, by which `device_map="auto"` goes, and the scaler of losses."""
    own: Any = module
    memory, scaler = own.get_max_memory, own.get_grad_scaler

    @functools.wraps(memory)
    def get_max_memory(max_memory: Any = None) -> Any:
        if not is_chosen():
            return memory(max_memory)
        if max_memory is None:
            return free()
        with mock.patch.object(
            torch.cuda, "device_count", door.device_count
        ):  # which it compares numbers with
            return memory(max_memory)

    @functools.wraps(scaler)
    def get_grad_scaler(distributed_type: Any = None, **kwargs: Any) -> Any:
        sharded = getattr(distributed_type, "value", None) == "FSDP"
        if sharded or not is_chosen():
            return scaler(distributed_type, **kwargs)
        return torch.amp.GradScaler(NAME, **kwargs)

    own.get_max_memory, own.get_grad_scaler = get_max_memory, get_grad_scaler


def free() -> dict[Any, int]:
    """Bytes free on each device, and on the host unless a device computes in its memory."""
    import psutil  # accelerate needs it

    found: dict[Any, int] = {}
    for index in range(door.device_count()):
        try:
            found[index] = door.mem_get_info(index)[0]
        except NotImplementedError as error:
            raise NotImplementedError(
                f'{error}; say what a model may take: max_memory={{{index}: "8GiB", "cpu": "16GiB"}}'
            ) from None
    if not all(door.get_device_properties(index).limits.host_resident for index in found):
        found["cpu"] = psutil.virtual_memory().available
    return found
