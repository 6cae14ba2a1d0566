"""torch.accelerator on the device: what is current, and memory."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401


def test_memory_is_counted() -> None:
    x = torch.empty(1 << 20, device="hologram")
    assert torch.accelerator.memory_allocated() == torch.hologram.memory_allocated() >= x.nbytes
    assert torch.accelerator.memory_reserved() >= x.nbytes
    before = torch.accelerator.memory_allocated()
    del x
    assert torch.accelerator.max_memory_allocated() >= before
    torch.accelerator.reset_peak_memory_stats()
    assert torch.accelerator.max_memory_allocated() < before
    torch.accelerator.empty_cache()


def test_the_current_device_is_hologram_s() -> None:
    last = torch.hologram.device_count() - 1
    with torch.accelerator.device_index(last):
        assert torch.hologram.current_device() == torch.accelerator.current_device_index() == last
        assert torch.empty(0, device="hologram").device.index == last
    assert torch.accelerator.current_device_index() == 0
    with pytest.raises(RuntimeError, match="hologram: there are"):
        torch.accelerator.set_device_index(99)


def test_the_dtypes_of_a_device_are_told() -> None:
    assert torch.float32 in torch.accelerator.get_device_capability()["supported_dtypes"]
