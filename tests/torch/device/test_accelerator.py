"""torch.accelerator on the device: what is current, and memory."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401
from hologram_torch.device.devices import devices  # noqa: E402


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
    last = len(devices.places) - 1
    with torch.accelerator.device_index(last):
        assert torch.hologram.current_device() == torch.accelerator.current_device_index() == last
        assert torch.empty(0, device="hologram").device.index == last
    assert torch.accelerator.current_device_index() == 0
    with pytest.raises(RuntimeError, match="hologram: there are"):
        torch.accelerator.set_device_index(99)


def test_the_dtypes_of_a_device_are_told() -> None:
    assert torch.float32 in torch.accelerator.get_device_capability()["supported_dtypes"]


def test_devices_of_one_backend_are_counted() -> None:
    backends = [place.backend for place in devices.places]
    assert torch.hologram.device_count() == torch.accelerator.device_count() == backends.count(backends[0])
    assert set(backends[: torch.hologram.device_count()]) == {backends[0]}


def test_memory_is_told_in_torch_cuda_s_words() -> None:
    x = torch.empty(1 << 18, device="hologram")
    stats = torch.hologram.memory_stats()
    assert (
        stats["allocated_bytes.all.peak"]
        >= stats["allocated_bytes.all.current"]
        == stats["allocated"]
        >= x.nbytes
    )
    assert f"{stats['reserved'] / 2**20:,.2f} MiB" in torch.hologram.memory_summary()
    assert torch.hologram.get_device_properties().name in torch.hologram.memory_summary()


def test_mixed_precision_has_its_own_names() -> None:
    a = torch.ones(4, 4, device="hologram")
    with torch.hologram.amp.autocast(dtype=torch.bfloat16):
        assert (a @ a).dtype is torch.bfloat16
    scaler = torch.hologram.amp.GradScaler(init_scale=4.0)
    assert scaler.scale(a).tolist() == (4 * a).tolist()

    class Doubled(torch.autograd.Function):
        @staticmethod
        @torch.hologram.amp.custom_fwd(cast_inputs=torch.float16)
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @torch.hologram.amp.custom_bwd
        def backward(ctx, g):
            return g * 2

    with torch.autocast("hologram"):
        assert Doubled.apply(a).dtype is torch.float16
