"""Memory that PyTorch calls pinned, and what crossed into the host's memory without being asked."""

from __future__ import annotations

import ctypes
import gc
import sys

import pytest
import torch

import hologram_torch  # noqa: F401  (the device)

DEVICE = "hologram"
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA pins memory itself"),
]


def test_pinned_memory_is_known_again() -> None:
    x = torch.arange(6, dtype=torch.int16).reshape(2, 3)
    assert not x.is_pinned()
    for pinned in (x.pin_memory(), x.pin_memory(device="hologram"), x[:, ::2].pin_memory()):
        assert pinned.is_pinned()
        assert pinned[1:].is_pinned()
        assert pinned.is_pinned(device="hologram")
    torch.testing.assert_close(x[:, ::2].pin_memory(), x[:, ::2])
    assert torch.zeros(0, 3).pin_memory().shape == (0, 3)
    assert not pinned.clone().is_pinned()


def test_pinned_memory_is_forgotten_with_its_tensor() -> None:
    view = torch.zeros(1000).pin_memory()[10:]
    place = view.untyped_storage().data_ptr()
    # Tensors of whoever has the memory afterwards; nobody looks into them.
    others = [
        torch.frombuffer((ctypes.c_byte * 4000).from_address(place), dtype=torch.int8) for _ in range(2)
    ]
    assert view.is_pinned()
    assert others[0].is_pinned()
    del view
    gc.collect()
    assert not others[1].is_pinned()


@pytest.mark.skipif(sys.platform != "linux", reason="PyTorch's hooks are changed on Linux alone")
def test_pinned_memory_can_be_asked_for() -> None:
    """As DistributedDataParallel does in C++."""
    torch.zeros(1, device=DEVICE)  # loads the device
    x = torch.empty(3, 100, pin_memory=True)
    likewise = torch.zeros_like(torch.ones(4), pin_memory=True)
    assert x.is_pinned()
    assert x[1:].is_pinned()
    assert torch.empty(0, pin_memory=True).is_pinned()
    assert not x.clone().is_pinned()
    assert x.device.type == "cpu"
    assert likewise.to(DEVICE, non_blocking=True).tolist() == [0.0] * 4
    with pytest.raises(RuntimeError, match="bad_alloc"):
        torch.empty(1 << 60, dtype=torch.uint8, pin_memory=True)


def test_weights_are_saturated_on_the_device() -> None:
    weight = torch.tensor([1.0, 1e6, -1e6, 65504.0], device=DEVICE)
    found = torch.ops.aten._saturate_weight_to_fp16(weight)
    assert found.cpu().tolist() == [1.0, 65504.0, -65504.0, 65504.0]
    assert weight.cpu().tolist() == found.cpu().tolist()


def test_group_norm_into_outputs() -> None:
    x = torch.randn(2, 4, 3, 3)
    wanted = torch.ops.aten.native_group_norm(x, None, None, 2, 4, 9, 2, 1e-5)
    outs = [torch.empty(0, device=DEVICE) for _ in range(3)]
    torch.ops.aten.native_group_norm.out(
        x.to(DEVICE), None, None, 2, 4, 9, 2, 1e-5, out0=outs[0], out1=outs[1], out2=outs[2]
    )
    for out, want in zip(outs, wanted, strict=True):
        torch.testing.assert_close(out.cpu(), want)


@pytest.mark.parametrize("name", ["empty", "zeros", "randn", "arange", "eye", "empty_like", "new_zeros"])
def test_memory_of_the_device_is_not_pinned(name: str) -> None:
    x = torch.ones(3, device=DEVICE)
    makers = {
        "empty_like": lambda: torch.empty_like(x, pin_memory=True),
        "new_zeros": lambda: x.new_zeros(3, pin_memory=True),
    }
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        makers.get(name, lambda: getattr(torch, name)(3, device=DEVICE, pin_memory=True))()
    assert not torch.empty(3, device=DEVICE, pin_memory=False).is_pinned()
