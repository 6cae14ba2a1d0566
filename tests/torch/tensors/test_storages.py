"""Storages of the device: copied, made and converted without an address that the host could read."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401


def test_copies_of_tensors_share_memory_as_the_originals_do() -> None:
    x = torch.arange(6.0, device="hologram").reshape(2, 3)
    whole, row = copy.deepcopy((x.t(), x[1]))
    assert whole.stride() == x.t().stride()
    whole.zero_()
    assert not row.any()
    assert x[1].tolist() == [3, 4, 5]


def test_modules_with_buffers_are_copied() -> None:
    model = torch.nn.BatchNorm1d(3).to("hologram")
    other = copy.deepcopy(model)
    other(torch.ones(2, 3, device="hologram"))
    assert other.running_mean.any()
    assert not model.running_mean.any()


def test_storages_are_made_on_the_device() -> None:
    for device in ("hologram", torch.device("hologram", 0)):
        found = torch.UntypedStorage(12, device=device)
        assert (found.nbytes(), found.device.type) == (12, "hologram")
    assert torch.UntypedStorage([1, 2], device="hologram").tolist() == [1, 2]
    assert torch.UntypedStorage(3).device.type == "cpu"
    assert torch.UntypedStorage(device="hologram").nbytes() == 0


def test_what_needs_an_address_is_refused() -> None:
    storage = torch.ones(3, device="hologram").untyped_storage()
    with pytest.raises(NotImplementedError, match="hologram"):
        storage.byteswap(torch.float32)
    with pytest.raises(NotImplementedError, match="hologram"):
        storage.resize_(5)


def test_storages_are_freed_and_come_back() -> None:
    before = torch.hologram.memory_allocated()
    x = torch.ones(1 << 20, device="hologram")
    storage = x.untyped_storage()
    storage.resize_(0)
    assert storage.size() == x.untyped_storage().nbytes() == 0
    assert torch.hologram.memory_allocated() == before
    with pytest.raises(RuntimeError, match="hologram"):
        x.add_(1)
    storage.resize_(4 << 20)
    assert x.fill_(2).sum().item() == 2 << 20


def test_tensors_of_the_host_that_were_copied_can_be_resized() -> None:
    x = torch.arange(6.0, device="hologram")
    host = torch.arange(6.0)
    copies = [x.cpu(), x[1].cpu(), x[::2].cpu(), x.to("cpu", torch.float64), x.bfloat16().cpu(), host]
    host.to("hologram")
    for kind in (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.bool, torch.complex64):
        given = torch.ones(2, 3).to(kind).t()
        there = given.to("hologram")
        copies += [given, there.cpu(), torch.empty_like(given).copy_(there)]
    for copy_ in copies:
        copy_.untyped_storage().resize_(4000)
        copy_.resize_(100)
    assert copies[0][:6].tolist() == [0, 1, 2, 3, 4, 5]
