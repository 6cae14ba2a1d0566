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
