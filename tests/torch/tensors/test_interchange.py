"""DLPack from and to tensors of the device."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401
from hologram_torch.device.devices import devices  # noqa: E402

TAKERS: dict[str, Callable[[Any], Any]] = {
    "torch": torch.from_dlpack,
    "numpy": np.from_dlpack,
    "hologram": lambda x: hg.Executor(backend="cpu").from_dlpack(x),
}
DEVICES = range(len(devices.places))


@pytest.mark.parametrize("index", DEVICES)
@pytest.mark.parametrize("name", TAKERS)
def test_others_take_tensors_of_the_device(name: str, index: int) -> None:
    x = torch.arange(12.0, device=f"hologram:{index}").reshape(3, 4)
    for view in (x, x.t(), x[1:, ::2], x[2, 3]):
        found = TAKERS[name](view)
        assert np.array_equal(np.asarray(found), view.cpu().numpy())
    assert np.asarray(TAKERS[name](x.to(torch.int64))).dtype == np.int64


@pytest.mark.parametrize("name", TAKERS)
def test_memory_of_the_host_is_shared(name: str) -> None:
    # The CPU always is one.
    index = next(i for i in DEVICES if torch.hologram.get_device_properties(i).limits.host_resident)
    x = torch.zeros(2, 3, device=f"hologram:{index}")
    found = TAKERS[name](x[1])
    x[1, 2] = 7.0
    torch.hologram.synchronize(index)
    assert np.asarray(found).tolist() == [0.0, 0.0, 7.0]
    del x
    gc.collect()
    assert np.asarray(found).tolist() == [0.0, 0.0, 7.0]  # for as long as they look at it


def test_hologram_s_tensors_come_back() -> None:
    x = torch.arange(6.0, device="hologram")
    there = hg.from_dlpack(x) * 2.0
    assert torch.from_dlpack(there).tolist() == [0, 2, 4, 6, 8, 10]
    back = torch.from_dlpack(there, device="hologram")
    assert back.device == x.device
    assert back.tolist() == [0, 2, 4, 6, 8, 10]


def test_tensors_that_need_gradients_are_refused() -> None:
    x = torch.ones(3, device="hologram", requires_grad=True)
    for take in TAKERS.values():
        with pytest.raises((BufferError, hg.InteropError), match="gradient"):
            take(x)


def test_each_world_names_the_other() -> None:
    theirs, ours = torch.ones(3, device="hologram"), hg.ones(3)
    with pytest.raises(TypeError, match=r"torch.Tensor is another library's: hg.asarray\(x\)"):
        hg.jit(lambda x: x * 2)(theirs)
    with pytest.raises(TypeError, match=r"got torch.Tensor; hg.asarray\(x\) makes a Tensor of it"):
        hg.add(ours, theirs)
