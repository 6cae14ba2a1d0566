"""What a kernel's recording may not do: write past memory, forget what the host wrote, change what is then refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401

CALLS = 4  # the first is recorded, and the others do what it did


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("held", [0, 10, 20])
def test_an_output_that_is_resized_is_so_at_each_call(held: int) -> None:
    x = torch.arange(10.0, device="hologram")
    for _ in range(CALLS):
        guards = [torch.full((10,), 7.0, device="hologram") for _ in range(4)]
        out = torch.empty(held, device="hologram").resize_(0 if held < 20 else 20)
        guards += [torch.full((10,), 7.0, device="hologram") for _ in range(4)]
        torch.add(x, x, out=out)
        assert out.shape == (10,)
        assert out.cpu().tolist() == [2.0 * k for k in range(10)]
        assert all((g == 7.0).all().item() for g in guards)


def test_numbers_of_a_call_are_not_forgotten() -> None:
    """The host writes them to memory that the kernel is given."""
    for value, wanted in ((4.0, [0, 0, 3, 0, 0]), (9.0, [0, 0, 0, 0, 3]), (0.5, [3, 0, 0, 0, 0])):
        for _ in range(CALLS):
            x = torch.full((3,), value, device="hologram")
            assert torch.histc(x, 5, 0, 10).tolist() == wanted


def test_fake_quantisation_is_the_same_each_time() -> None:
    x = torch.linspace(-3, 3, 31)
    wanted = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)
    scale, zero = torch.tensor([0.1]), torch.tensor([0], dtype=torch.int32)
    for _ in range(CALLS):
        got = torch.fake_quantize_per_tensor_affine(x.to("hologram"), 0.1, 0, -128, 127)
        torch.testing.assert_close(got.cpu(), wanted)
        got = torch.fake_quantize_per_channel_affine(
            x[None].to("hologram"), scale.to("hologram"), zero.to("hologram"), 0, -128, 127
        )
        torch.testing.assert_close(got.cpu(), wanted[None])


POSITIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "index_put_": lambda x, i, v: x.index_put_((i,), v),
    "index_put_ accumulate": lambda x, i, v: x.index_put_((i,), v, accumulate=True),
    "scatter_": lambda x, i, v: x.scatter_(0, i, v),
    "scatter_add_": lambda x, i, v: x.scatter_add_(0, i, v),
    "index_add_": lambda x, i, v: x.index_add_(0, i, v),
    "index_fill_": lambda x, i, v: x.index_fill_(0, i, 7.0),
    "index_copy_": lambda x, i, v: x.index_copy_(0, i, v),
    "put_": lambda x, i, v: x.put_(i, v),
    "out": lambda x, i, v: torch.index_select(torch.ones(4, device=x.device), 0, i, out=x[:2]),
}


def _done(call: Callable[[Any, Any, Any], Any], *given: Any) -> None:
    """With what some devices say later."""
    call(*given)
    torch.hologram.synchronize()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("call", POSITIONS.values(), ids=POSITIONS)
def test_positions_out_of_range_change_nothing(call: Callable[[Any, Any, Any], Any]) -> None:
    value = torch.tensor([1.0, 2.0])
    for _ in range(CALLS):
        here, there = torch.zeros(4), torch.zeros(4, device="hologram")
        positions = torch.tensor([1, 2])
        call(here, positions, value)
        call(there, positions.to("hologram"), value.to("hologram"))
        torch.testing.assert_close(there.cpu(), here)
    for _ in range(2):
        x = torch.zeros(4, device="hologram")
        with pytest.raises((IndexError, RuntimeError)):
            _done(call, x, torch.tensor([1, 99], device="hologram"), value.to("hologram"))
        assert x.cpu().tolist() == [0.0, 0.0, 0.0, 0.0]


def test_index_copy_in_place_is_what_it_is_on_the_cpu() -> None:
    generator = torch.Generator().manual_seed(0)
    for axis in (0, 1, 2, -1):
        for _ in range(CALLS):
            x = torch.randn(3, 4, 5, generator=generator)
            index = torch.randperm(x.shape[axis], generator=generator)[:2]
            shape = list(x.shape)
            shape[axis] = 2
            source = torch.randn(shape, generator=generator)
            there = x.to("hologram")
            view = there.transpose(0, 2)
            there.index_copy_(axis, index.to("hologram"), source.to("hologram"))
            torch.testing.assert_close(there.cpu(), x.index_copy(axis, index, source))
            torch.testing.assert_close(view.cpu(), there.cpu().transpose(0, 2))


def test_attention_without_gradients_writes_nowhere_else() -> None:
    """Recorded as a whole: its parts' memory is small, and lies side by side."""
    generator = torch.Generator().manual_seed(1)
    for heads in (1, 2, 7):
        for _ in range(CALLS):
            q, k, v = (torch.randn(1, 2 * heads, n, 4, generator=generator) for n in (1, 9, 9))
            k, v = k[:, :heads], v[:, :heads]
            mask = torch.rand(1, 1, 1, 9, generator=generator) > 0.2
            mask[..., 0] = True
            wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
            guards = [torch.full((5,), 7.0, device="hologram") for _ in range(8)]
            given = [x.to("hologram") for x in (q, k, v, mask)]
            got = torch.nn.functional.scaled_dot_product_attention(*given, enable_gqa=True)
            torch.testing.assert_close(got.cpu(), wanted)
            assert all((g == 7.0).all().item() for g in guards)
