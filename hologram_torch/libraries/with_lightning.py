"""Lightning and Fabric: the device as an accelerator of theirs, which "auto" and "gpu" mean where it is the machine's.

Lightning (2.6) asks for each device by name. `torch.accelerator` in `_choose_auto_accelerator`, in
`_choose_gpu_accelerator_backend`, in the branches for one device and for mixed precision, and in DDP's
`determine_ddp_device_ids` would leave the registered accelerator as all that is needed.
"""

from __future__ import annotations

import functools
import warnings
from types import ModuleType
from typing import Any

import torch

from hologram_torch import accelerator as ours
from hologram_torch.door import door
from hologram_torch.loading import NAME

_NUMBERS = "devices of hologram are a number of processes, a list of device numbers, or 'auto'"


def _device_numbers(devices: Any) -> list[int]:
    """Of the processes: 3 are three, which share what devices there are; "0,1" and [0, 1] name devices."""
    count = door.device_count()
    if devices in ("auto", -1, "-1"):
        return list(range(count))
    if isinstance(devices, str):
        parts = [part.strip() for part in devices.split(",") if part.strip()]
        if not parts or not all(part.isdigit() for part in parts):
            raise ValueError(f"{_NUMBERS}; got {devices!r}")
        devices = [int(part) for part in parts] if "," in devices else int(parts[0])
    if type(devices) is int and devices > 0:
        return [number % count for number in range(devices)]
    if isinstance(devices, list | tuple) and devices and all(type(number) is int for number in devices):
        beyond = [number for number in devices if not 0 <= number < count]
        if beyond:
            raise ValueError(f"devices of hologram are numbered 0 to {count - 1} here; got {beyond[0]}")
        return list(devices)
    raise ValueError(f"{_NUMBERS}; got {devices!r}")


def accelerators(module: ModuleType) -> None:
    """Registers the device under its name; the class is also in the module."""
    base: Any = vars(module)["Accelerator"]
    registry = vars(module).get("AcceleratorRegistry") or vars(module)["ACCELERATOR_REGISTRY"]

    class HologramAccelerator(base):
        """hologram's device."""

        def setup_device(self, device: torch.device) -> None:
            if device.type != NAME:
                raise ValueError(f"Device should be {NAME}, got {device} instead.")
            door.set_device(device.index or 0)

        def teardown(self) -> None:
            door.empty_cache()

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            return dict(door.memory_stats(device))

        @staticmethod
        def parse_devices(devices: Any) -> list[int]:
            return _device_numbers(devices)

        @staticmethod
        def get_parallel_devices(devices: Any) -> list[torch.device]:
            return [torch.device(NAME, number) for number in _device_numbers(devices)]

        @staticmethod
        def auto_device_count() -> int:
            return door.device_count()

        @staticmethod
        def is_available() -> bool:
            return True  # by its name the device is there on every machine

        @staticmethod
        def name() -> str:
            return NAME

    # Trainers are sent to other processes by name.
    HologramAccelerator.__module__, HologramAccelerator.__qualname__ = module.__name__, "HologramAccelerator"
    registry.register(NAME, HologramAccelerator, description="hologram")
    vars(module)["HologramAccelerator"] = HologramAccelerator


def connector(module: ModuleType) -> None:
    """What a Trainer or a Fabric makes of its arguments."""
    owner: Any = vars(module).get("_AcceleratorConnector") or vars(module)["_Connector"]
    automatic, gpu = owner._choose_auto_accelerator, owner._choose_gpu_accelerator_backend
    strategy, precision = owner._choose_strategy, owner._check_and_init_precision

    @functools.wraps(automatic)
    def choose_auto_accelerator() -> str:
        found = automatic()
        return NAME if found == "cpu" and ours.current() is not None else found

    @functools.wraps(gpu)
    def choose_gpu_accelerator_backend() -> str:
        return gpu() if ours.current() is None else NAME

    @functools.wraps(strategy)
    def choose_strategy(self: Any) -> Any:
        found: Any = strategy(self)
        if isinstance(found, str) or self.accelerator.name() != NAME:
            return found
        single: Any = type(found)
        return single(device=self._parallel_devices[0])

    @functools.wraps(precision)
    def check_and_init_precision(self: Any) -> Any:
        if self.accelerator.name() != NAME:
            return precision(self)
        with warnings.catch_warnings():  # of a scaler for CUDA, made and thrown away
            warnings.filterwarnings("ignore", ".*torch.cuda.amp.GradScaler.*|.*CUDA is not available.*")
            found: Any = precision(self)
        mixed = type(found).__name__ == "MixedPrecision" and found is not getattr(
            self, "_precision_plugin_flag", getattr(self, "_precision_instance", None)
        )
        return type(found)(found.precision, NAME) if mixed else found

    owner._choose_auto_accelerator = staticmethod(choose_auto_accelerator)
    owner._choose_gpu_accelerator_backend = staticmethod(choose_gpu_accelerator_backend)
    owner._choose_strategy = choose_strategy
    owner._check_and_init_precision = check_and_init_precision


def data_parallel(module: ModuleType) -> None:
    """DistributedDataParallel gets no numbers of devices: where it does, Lightning asks for a stream of CUDA."""
    owner: Any = vars(module)["DDPStrategy"]
    name = next(n for n in ("determine_ddp_device_ids", "_determine_ddp_device_ids") if hasattr(owner, n))
    numbers = getattr(owner, name)

    @functools.wraps(numbers)
    def device_ids(self: Any) -> Any:
        return None if self.root_device.type == NAME else numbers(self)

    setattr(owner, name, device_ids)
