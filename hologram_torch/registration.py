"""Makes `hologram` a device of PyTorch's, on its key for other people's devices; nothing that computes is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch._C import _acc  # pyright: ignore
from torch._C._autograd import DeviceType  # pyright: ignore
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from hologram_torch import accelerator, libraries, stand_in
from hologram_torch.door import door
from hologram_torch.loading import NAME, any_operator, is_it, later, named, whole
from hologram_torch.reach import expect, reach, settle


class Hooks(_acc.PrivateUse1Hooks):
    """What PyTorch asks about all devices."""

    def is_available(self) -> bool:
        return True

    def has_primary_context(self, dev_id: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


class Guard(_acc.DeviceGuard):
    """What PyTorch asks about the current device."""

    def type_(self) -> Any:
        return DeviceType.PrivateUse1


def _parsed(*args: Any, **kwargs: Any) -> Any:
    """The device that the arguments of nn.Module.to name, where they name ours; numbers name the accelerator."""
    for x in (*args, *kwargs.values()):
        place = x.device if isinstance(x, torch.Tensor) else accelerator.current() if type(x) is int else x
        if is_it(place):
            return place
    return None


def _by_pytorch() -> Any:
    parse: Any = torch._C._nn._parse_to  # pyright: ignore[reportAttributeAccessIssue]
    expect(len(parse("cpu")) == 4, "it gives a device, a dtype and two more")
    return lambda *args, **kwargs: parse(*args, **kwargs)[0]


_goes_to = reach(
    "conversions",
    "torch._C._nn._parse_to",
    "the arguments of nn.Module.to are looked through one by one",
    _by_pytorch,
    _parsed,
)


def _converts(self: Any, *args: Any, **kwargs: Any) -> bool:
    """Whether nn.Module.to goes to the device, which numbers name too; what it refuses it refuses itself."""
    try:
        return is_it(_goes_to(*args, **kwargs))
    except (TypeError, RuntimeError):
        return False


class AlsoOurs(list[str]):
    """Types of devices that a backend of torch.distributed takes, and the device where it is the accelerator."""

    def __iter__(self) -> Iterator[str]:
        yield from super().__iter__()
        if accelerator.current() is not None:
            yield NAME


_kept = (Hooks(), Guard(), torch.library.Library("_", "IMPL"))  # PyTorch holds no reference
_setup_privateuseone_for_python_backend(NAME, door, *_kept[:2])
_kept[2].fallback(any_operator, "PrivateUse1")
settle(
    "accelerator",
    "torch._C._accelerator_getAccelerator",
    "the device is the accelerator wherever it is installed, of one card and without streams",
    "accelerator",
)

for _class, _ours, _default in (
    (torch.Generator, is_it, "cpu"),
    (torch.Stream, accelerator.is_meant, None),
    (torch.Event, accelerator.is_meant, None),
):
    whole.door(torch, _class.__name__, stand_in.before_loading(_class, whole, _ours, _default))
whole.before(torch.nn.Module, "to", _converts)
whole.before(torch.nn.Module, "to_empty", named)
whole.before(torch.nn.Module, NAME, lambda *args, **kwargs: True)
whole.before(torch.Tensor, "pin_memory", lambda x, device=None: accelerator.pins(device))
for _name in ("__new__", "to"):
    whole.before(torch.UntypedStorage, _name, named)
whole.before(torch.UntypedStorage, NAME, lambda *args, **kwargs: True)


def _engine() -> None:
    backends: Any = torch.distributed.Backend
    gloo, default = backends.backend_capability["gloo"], backends.default_device_backend_map
    backends.register_backend(NAME, later("hologram_torch.distributed", "opened"), devices=["cpu", NAME])
    default[NAME] = NAME  # also where none is named
    backends.backend_capability["gloo"] = AlsoOurs(gloo)


if torch.distributed.is_available() and torch.distributed.is_gloo_available():
    reach(
        "groups",
        "torch.distributed.Backend's tables",
        "init_process_group needs backend='hologram'",
        _engine,
        None,
    )
libraries.settle()
settle(
    "compiler",
    "torch._TorchCompileInductorWrapper",
    "torch.compile needs backend='hologram'",
    "compiler",
)
