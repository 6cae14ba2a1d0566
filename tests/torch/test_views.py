"""Views of tensors of the device are PyTorch's: sizes, strides, offsets, errors and whose they are."""

from __future__ import annotations

import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401
from hologram_torch import native  # noqa: E402


def given(x: Any, sizes: list[int]) -> object:
    """What a view of a tensor is, or why there is none."""
    try:
        found = x.view(sizes)
    except RuntimeError as error:
        return str(error)
    return found.shape, found.stride(), found.storage_offset()


def test_views_are_those_of_the_host() -> None:
    rng = random.Random(0)
    host = torch.arange(500.0)
    device = host.to("hologram")
    views = 0
    for _ in range(1500):
        axes = rng.randint(0, 4)
        sizes = [rng.choice([0, 1, 1, 2, 2, 3, 4]) for _ in range(axes)]
        strides = [rng.choice([0, 1, 2, 3, 4, 6, 8, 12]) for _ in range(axes)]
        others = [rng.choice([1, 2, 3, 4, 6, -1, -2]) for _ in range(rng.randint(0, 4))]
        offset = rng.randint(0, 5)
        wanted = given(host.as_strided(sizes, strides, offset), others)
        assert given(device.as_strided(sizes, strides, offset), others) == wanted
        views += not isinstance(wanted, str)
    assert views > 100


@pytest.mark.parametrize(
    ("sizes", "strides"), [((2000,), (1,)), ((2,), (-1,)), ((2, 3), (1,)), ((-1,), (1,))]
)
def test_views_that_cannot_be_are_refused(sizes: tuple[int, ...], strides: tuple[int, ...]) -> None:
    def refusal(x: Any) -> str:
        with pytest.raises(RuntimeError) as caught:
            x.as_strided(sizes, strides)
        return str(caught.value)

    assert refusal(torch.zeros(8, device="hologram")) == refusal(torch.zeros(8))


def test_views_belong_to_the_inference_mode_of_their_tensor() -> None:
    x = torch.arange(6.0, device="hologram").reshape(2, 3)
    with torch.inference_mode():
        own = torch.ones(2, 3, device="hologram")
        assert own.t().is_inference()
        assert not x.t().is_inference()
        assert x[1, 1:]._base is x._base
        assert x.t()[1].cpu().tolist() == [1, 4]
    assert own.t().is_inference()


def test_views_keep_no_memory() -> None:
    x = torch.zeros(64, device="hologram")
    before = torch.hologram.memory_allocated()
    for _ in range(100):
        x.view(8, 8).t()[2:4].unsqueeze(0)
    assert torch.hologram.memory_allocated() == before


@pytest.mark.skipif(native.sys.platform != "linux", reason="compiled views were tried on Linux only")
def test_views_are_compiled_where_they_can_be() -> None:
    pytest.importorskip("llvmlite")
    found = torch._C._dispatch_dump("aten::view")
    assert "views.py" in next(line for line in found.splitlines() if line.startswith("PrivateUse1"))


PARTS = {
    "head": lambda x: x[:2],
    "columns": lambda x: x[:, 1:3],
    "transposed": lambda x: x.t(),
    "row": lambda x: x[1],
    "element": lambda x: x[2, 1],
    "backwards": lambda x: x.as_strided((4, 4), (1, 4)),
    "repeated": lambda x: x.as_strided((4, 4), (0, 1)),
}


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_operands_that_were_met_whole(part: str) -> None:
    """What is known of two whole tensors says nothing of parts of them, of as many axes or fewer."""
    host = [torch.randn(4, 4) for _ in range(2)]
    x, y = (each.to("hologram") for each in host)
    for _ in range(3):
        assert torch.equal((x - y).cpu(), host[0] - host[1])
    view = PARTS[part]
    for one, other in ((view, view), (view, lambda x: x), (lambda x: x, view)):
        try:
            expected = one(host[0]) - other(host[1])
        except RuntimeError:  # they do not broadcast
            continue
        assert torch.equal((one(x) - other(y)).cpu(), expected)


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_lists_that_were_met_whole(part: str) -> None:
    host = [torch.randn(4, 4) for _ in range(3)]
    device = [each.to("hologram") for each in host]
    for lists in (host, device):
        for _ in range(3):
            torch._foreach_add_(lists[:2], [lists[2], lists[2]], alpha=0.5)
        if part != "repeated":
            parts = [PARTS[part](each) for each in lists]
            torch._foreach_add_(parts[:2], [parts[2], parts[2]], alpha=0.5)
    for ours, theirs in zip(device, host, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)


def test_adam_goes_on_after_parameters_became_parts() -> None:
    """Parameters that are set to parts of others' memory are stepped as what they are."""

    def stepped(device: str) -> Any:
        torch.manual_seed(0)
        p = torch.nn.Parameter(torch.randn(4, 4).to(device))
        optimiser = torch.optim.AdamW([p], lr=0.1, foreach=True)
        for k in range(6):
            if k == 3:
                p.data = p.data.t()
            p.grad = (torch.arange(16.0).reshape(4, 4) - 7).to(device)
            optimiser.step()
        return p.detach().cpu()

    torch.testing.assert_close(stepped("hologram"), stepped("cpu"))


def test_tensors_without_elements_overlap_nothing_but_have_shapes() -> None:
    empty = torch.empty(0, 1, device="hologram").expand(0, 4)
    assert empty.add_(1).shape == (0, 4)
    assert torch.empty(0, 1).expand(0, 4).clone().to("hologram").shape == (0, 4)
    assert empty.copy_(torch.ones(1, 4)).shape == (0, 4)
    for source in (torch.ones(2, 4), torch.ones(2, 4, device="hologram")):
        with pytest.raises(RuntimeError, match="hologram"):
            empty.copy_(source)


def test_negative_views_on_the_host_take_copies() -> None:
    device = torch.arange(3.0, device="hologram")
    negative = torch._neg_view(torch.zeros(3))
    assert negative.copy_(device).tolist() == [0, 1, 2]
    complexes = torch.zeros(3, dtype=torch.complex64)
    complexes.conj().imag.copy_(device)
    assert complexes.imag.tolist() == [0, -1, -2]
    assert device.copy_(torch._neg_view(torch.ones(3))).tolist() == [-1, -1, -1]


def test_copies_of_views_that_cannot_be() -> None:
    host = torch.arange(12).reshape(3, 4).t()
    device = host.to("hologram")
    assert torch.view_copy(device, (2, 6)).tolist() == torch.view_copy(host, (2, 6)).tolist()
    out = torch.zeros(3, 2, 6, dtype=torch.int64, device="hologram")[1]
    assert torch.view_copy(device, (2, 6), out=out).tolist() == host.reshape(2, 6).tolist()
    copied = torch.view_copy(device, (4, 3))
    copied.zero_()
    assert device.tolist() == host.tolist()
