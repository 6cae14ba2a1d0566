"""Tensors of the device are PyTorch's own: plain, with its views, aliasing, autograd and errors."""

from __future__ import annotations

import copy
import gc
import io
import weakref

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401
from hologram_torch.tensors.memory import payload  # noqa: E402


def test_tensors_are_plain() -> None:
    x = torch.arange(6.0).reshape(2, 3).to("hologram")
    assert type(x) is torch.Tensor
    assert x.device == torch.device("hologram", 0)
    assert x.dtype == torch.float32
    assert x.is_contiguous()
    assert x.cpu().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert isinstance(torch.nn.Linear(2, 2).to("hologram").weight, torch.nn.Parameter)


def test_views_share_memory() -> None:
    x = torch.zeros(4, 6, device="hologram")
    x[1:3, ::2].add_(1)
    x.t()[5].fill_(7)
    wanted = torch.zeros(4, 6)
    wanted[1:3, ::2].add_(1)
    wanted.t()[5].fill_(7)
    assert torch.equal(x.cpu(), wanted)
    assert payload(x[1]) is payload(x)


def test_reinterpreting_a_dtype() -> None:
    x = torch.tensor([1.0, -2.0], device="hologram")
    assert torch.equal(x.view(torch.int32).add(1).cpu(), x.cpu().view(torch.int32) + 1)
    assert torch.equal(x.view(torch.uint8).cpu(), x.cpu().view(torch.uint8))


def test_memory_goes_with_the_last_view() -> None:
    x = torch.ones(1000, device="hologram")
    view = x[3:]
    buffer = weakref.ref(payload(x))
    del x
    gc.collect()
    assert buffer() is not None
    del view
    gc.collect()
    assert buffer() is None


def test_a_model_trains_saves_and_copies() -> None:
    torch.manual_seed(0)
    host = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    model = copy.deepcopy(host).to("hologram")
    x = torch.randn(16, 4)
    for here, data in ((host, x), (model, x.to("hologram"))):
        optimiser = torch.optim.SGD(here.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            optimiser.zero_grad()
            here(data).square().mean().backward()
            optimiser.step()
    file = io.BytesIO()
    torch.save(copy.deepcopy(model).state_dict(), file)
    file.seek(0)
    for name, tensor in torch.load(file, map_location="cpu").items():
        torch.testing.assert_close(tensor, host.state_dict()[name])


def test_devices_do_not_mix() -> None:
    with pytest.raises(RuntimeError, match=r"hologram.*same device"):
        torch.ones(2, device="hologram") + torch.ones(2)
    with pytest.raises(RuntimeError, match="hologram:99"):
        torch.ones(2, device="hologram:99")


def test_complex_numbers_of_halves_are_refused() -> None:
    with pytest.raises(TypeError, match="hologram"):
        torch.ones(2, dtype=torch.complex32).to("hologram")


def test_a_diagonal_is_no_operand() -> None:
    for dtype in (torch.uint8, torch.bool, torch.int64):
        x = torch.ones(5, 4, dtype=dtype)
        for diagonal in (-2, 0, 3):
            assert torch.equal(torch.triu(x.to("hologram"), diagonal).cpu(), torch.triu(x, diagonal))


def test_numbers_wrap_round_in_the_dtype() -> None:
    x = torch.tensor([255, 3], dtype=torch.uint8)
    there = x.to("hologram")
    for number in (-1, 256, 300):
        for _ in range(2):
            assert torch.equal((there == number).cpu(), x == number)
            assert torch.equal((there + number).cpu(), x + number)


def test_integers_become_the_default_float_of_the_moment() -> None:
    x = torch.arange(1, 4, device="hologram")
    assert x.exp().dtype == (x / 2).dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert x.exp().dtype == (x / 2).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert x.exp().dtype == torch.float32


def test_the_sign_of_zero_tells_arguments_apart() -> None:
    x = torch.tensor([-1.0, 1.0], device="hologram")
    for low in (0.0, -0.0):
        found = torch.nn.functional.hardtanh(x, low, 1.0).cpu()
        assert torch.equal(
            torch.signbit(found), torch.signbit(torch.nn.functional.hardtanh(x.cpu(), low, 1.0))
        )


def test_what_runs_on_the_host_is_asked_for_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.eye(3, device="hologram")
    monkeypatch.delenv("HOLOGRAM_TORCH_FALLBACK", raising=False)
    with pytest.raises(NotImplementedError, match="sparse_csr"):
        x.to_sparse_csr()
    torch.linalg.lstsq(x, x)
    assert any(f.by_design and f.calls and f.bytes_moved for f in torch.hologram.fallbacks())


def test_copies_that_nobody_waits_for() -> None:
    x = torch.arange(3.0, device="hologram")
    assert x.to("cpu", non_blocking=True).tolist() == [0.0, 1.0, 2.0]
    assert torch.nn.Linear(2, 2).to("hologram").to("cpu", non_blocking=True).weight.device.type == "cpu"
    assert x.to("hologram", torch.float16, non_blocking=True).dtype is torch.float16
    assert torch.arange(3.0).to("hologram", non_blocking=True).tolist() == [0.0, 1.0, 2.0]
