"""Positions out of range and malformed ones: PyTorch's exceptions, naming hologram, and a process that goes on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest

pytest.importorskip("torch")
import torch

import hologram_torch  # noqa: F401
from hologram_torch.device.devices import devices


def _device(*values: object) -> list[torch.Tensor]:
    return [torch.as_tensor(v, device="hologram") for v in values]


BEYOND: dict[str, tuple[type[Exception], Callable[[torch.Tensor, torch.Tensor], object]]] = {
    "index_select": (IndexError, lambda x, i: x.index_select(0, i)),
    "gather": (RuntimeError, lambda x, i: x.gather(0, i)),
    "take": (IndexError, lambda x, i: x.take(i)),
    "index": (IndexError, lambda x, i: x[i]),
    "index_put": (IndexError, lambda x, i: x.index_put_((i,), torch.ones((), device=x.device))),
    "index_put accumulate": (
        IndexError,
        lambda x, i: x.index_put_((i,), torch.ones((), device=x.device), accumulate=True),
    ),
    "index_add": (IndexError, lambda x, i: x.index_add_(0, i, torch.ones(2, device=x.device))),
    "index_copy": (IndexError, lambda x, i: x.index_copy_(0, i, torch.ones(2, device=x.device))),
    "index_fill": (IndexError, lambda x, i: x.index_fill_(0, i, 1.0)),
    "put": (IndexError, lambda x, i: x.put_(i, torch.ones(2, device=x.device))),
    "scatter": (RuntimeError, lambda x, i: x.scatter_(0, i, 1.0)),
    "scatter_add": (RuntimeError, lambda x, i: x.scatter_add_(0, i, torch.ones(2, device=x.device))),
    "scatter_reduce": (
        RuntimeError,
        lambda x, i: x.scatter_reduce_(0, i, torch.ones(2, device=x.device), "amax"),
    ),
}


@pytest.mark.parametrize("name", BEYOND)
@pytest.mark.parametrize("position", [4, -5, 2**40])
def test_positions_out_of_range(name: str, position: int) -> None:
    kind, call = BEYOND[name]
    x, index = _device([1.0, 2.0, 3.0, 4.0], [0, position])
    with pytest.raises(kind, match="hologram"):
        call(x, index)
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0]
    with pytest.raises((IndexError, RuntimeError)) as host:
        call(x.cpu(), index.cpu())
    assert issubclass(kind, host.type) or issubclass(host.type, kind)


def _ones(*shape: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: torch.ones(shape, device=x.device, dtype=x.dtype)


# What is written into a tensor of two rows of two elements.
WRITTEN: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "index_put": lambda x, i: x.index_put_((i,), _ones(2, 2)(x)),
    "index_put of two": lambda x, i: x.index_put_((i, i), _ones(2)(x)),
    "index_put accumulate": lambda x, i: x.index_put_((i,), _ones(2, 2)(x), accumulate=True),
    "index_add": lambda x, i: x.index_add_(0, i, _ones(2, 2)(x)),
    "index_copy": lambda x, i: x.index_copy_(0, i, _ones(2, 2)(x)),
    "index_fill": lambda x, i: x.index_fill_(0, i, 1.0),
    "index_reduce": lambda x, i: x.index_reduce_(0, i, _ones(2, 2)(x), "amax"),
    "put": lambda x, i: x.put_(i, _ones(2)(x)),
    "scatter": lambda x, i: x.scatter_(0, i[:, None], _ones(2, 1)(x)),
    "scatter_add": lambda x, i: x.scatter_add_(0, i[:, None], _ones(2, 1)(x)),
    "scatter_reduce": lambda x, i: x.scatter_reduce_(0, i[:, None], _ones(2, 1)(x), "prod"),
    "masked_scatter": lambda x, i: x.masked_scatter_(i[:, None] >= 0, _ones(2)(x)),
    "gather": lambda x, i: torch.gather(x.clone(), 0, i[:, None].expand(2, 2), out=x),
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
def test_calls_like_an_earlier_one_write_nothing_either(name: str, dtype: torch.dtype, backend: str) -> None:
    call = WRITTEN[name]
    number = next(k for k, place in enumerate(devices.places) if place.backend == backend)
    start = torch.tensor([[2, 3], [4, 5]], dtype=dtype)
    right = torch.tensor([-1 if name == "masked_scatter" else 1, 0])  # whose source has two elements
    wrong = torch.tensor([0, 9])
    for positions in (right, wrong, right, right, wrong, right, wrong):
        here, there = start.clone(), start.to(f"hologram:{number}")
        index = positions.to(there.device)
        if positions is right:
            call(here, positions)
            call(there, index)
        else:
            with pytest.raises((IndexError, RuntimeError), match="hologram"):
                _ = call(there, index), there.cpu()  # which waits for the device, if nobody has
        assert torch.equal(there.cpu(), here)


def test_negative_positions_count_from_the_end_where_pytorch_says_so() -> None:
    x, index = _device([1.0, 2.0, 3.0], [-1, 0])
    assert x[index].tolist() == [3.0, 1.0]
    assert x.take(index).tolist() == [3.0, 1.0]
    with pytest.raises(IndexError, match="hologram"):
        x.index_select(0, index)
    with pytest.raises(RuntimeError, match="hologram"):
        x.gather(0, index)


def test_advanced_indexing_places_axes_as_pytorch() -> None:
    host = torch.arange(120.0).reshape(2, 3, 4, 5)
    x = host.to("hologram")
    rows, columns = torch.tensor([[0, 2], [1, -1]]), torch.tensor([3, 0])
    mask = host[0] % 3 == 0
    there = {t: t.to("hologram") for t in (rows, columns, mask)}
    for key in (
        lambda f: (slice(None), f(rows), f(columns)),
        lambda f: (slice(None), f(rows), slice(None), f(columns)),
        lambda f: (1, f(rows)),
        lambda f: (slice(None), f(mask)),
        lambda f: (None, f(rows[1]), ...),
    ):
        index = key(lambda t: there.get(t, t.to("hologram")))
        wanted = key(lambda t: t)
        assert torch.equal(x[index].cpu(), host[wanted])
        ours, theirs = x.clone(), host.clone()
        ours[index], theirs[wanted] = -1.0, -1.0
        assert torch.equal(ours.cpu(), theirs)


def test_masked_assignment_does_not_wait() -> None:
    x, mask = _device([1.0, 2.0, 3.0], [True, False, True])
    x[mask] = 7.0
    assert x.tolist() == [7.0, 2.0, 7.0]


def test_sums_at_positions_that_repeat() -> None:
    x, index, values = _device([0.0, 0.0], [1, 1, 0], [1.0, 2.0, 4.0])
    x.index_put_((index,), values, accumulate=True)
    assert x.tolist() == [4.0, 3.0]


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amin", "amax"])
@pytest.mark.parametrize("include_self", [True, False])
def test_reductions_at_positions_pass_nan_on(reduce: str, include_self: bool) -> None:
    x, index = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 0, 2])
    source = torch.tensor([5.0, float("nan"), -1.0])
    want = x.scatter_reduce(0, index, source, reduce, include_self=include_self)
    got = x.to("hologram").scatter_reduce(
        0, index.to("hologram"), source.to("hologram"), reduce, include_self=include_self
    )
    torch.testing.assert_close(got.cpu(), want, equal_nan=True)


def test_outputs_that_share_memory_are_refused() -> None:
    x, index = _device([1.0, 2.0, 3.0], [0, 1, 2])
    with pytest.raises(RuntimeError, match=r"hologram.*single memory location"):
        torch.gather(x, 0, index, out=torch.zeros(1, device="hologram").expand(3))
    with pytest.raises(RuntimeError, match=r"hologram.*single memory location"):
        torch.gather(x, 0, index, out=x)
    long = torch.arange(4.0, device="hologram")
    with pytest.raises(RuntimeError, match=r"hologram.*single memory location"):
        torch.add(long[:3], 1, out=long[1:])
    torch.add(long, 1, out=long)
    assert long.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_outputs_without_axes() -> None:
    """Positions are checked first, along an axis that the number does not have."""
    x, index, place = torch.tensor(3.0), torch.tensor([0]), torch.tensor(0)
    calls = (
        lambda d, out: torch.index_select(x.to(d), 0, index.to(d), out=out),
        lambda d, out: torch.gather(x.to(d), 0, place.to(d), out=out),
    )
    for call in calls:
        for _ in range(2):  # the long way, then the short one
            out = torch.zeros(3, device="hologram")[1]
            assert call("hologram", out).tolist() == call("cpu", torch.zeros(())).tolist() == 3.0


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "max", "min"])
def test_gradients_of_segments_are_pytorchs(reduce: str) -> None:
    values = torch.tensor([3.0, 3.0, 0.0, float("nan"), 2.0, 0.0, 0.0, 5.0], dtype=torch.float64)

    def gradient(device: str) -> torch.Tensor:
        x = values.to(device).requires_grad_()
        lengths = torch.tensor([3, 2, 2, 1], device=device)
        found = torch.segment_reduce(x, reduce, lengths=lengths, initial=1.5)
        (found * torch.arange(1.0, 5.0, dtype=torch.float64, device=device)).sum().backward()
        assert x.grad is not None
        return x.grad.cpu()

    torch.testing.assert_close(gradient("hologram"), gradient("cpu"), equal_nan=True)


def test_positions_and_masks_of_the_host_index_tensors_of_the_device() -> None:
    def call(x: torch.Tensor) -> list[torch.Tensor]:
        rows, mask = torch.tensor([2, 0]), torch.tensor([[True, False], [False, False], [True, True]])
        written = x.clone()
        written[rows, torch.tensor([1])] = torch.tensor(7.0)
        written[mask] = 9.0
        written[:, torch.tensor([0])] *= 2
        return [x[rows], x[mask], x[..., rows[1:]], written]

    host = torch.arange(6.0).reshape(3, 2)
    for here, there in zip(call(host), call(host.to("hologram")), strict=True):
        assert there.device.type == "hologram"
        assert torch.equal(there.cpu(), here)


def test_positions_of_the_device_do_not_index_tensors_of_the_host() -> None:
    (index,) = _device([0, 1])
    with pytest.raises(RuntimeError, match="hologram"):
        torch.ones(3)[index]
    (x,) = _device([1.0, 2.0])
    with pytest.raises(RuntimeError, match="dtypes match"):
        x[index] = torch.tensor(1, dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.bool])
@pytest.mark.parametrize(
    "call",
    [lambda x, i: x.index_select(0, i), lambda x, i: x.index_add(0, i, x), lambda x, i: x.gather(0, i)],
    ids=["index_select", "index_add", "gather"],
)
def test_positions_of_other_dtypes_are_refused(
    call: Callable[[torch.Tensor, torch.Tensor], object], dtype: torch.dtype
) -> None:
    for device in ("cpu", "hologram"):
        x, index = torch.ones(2, device=device), torch.tensor([0, 1], dtype=dtype, device=device)
        with pytest.raises(RuntimeError, match="hologram" if device == "hologram" else "index"):
            call(x, index)


def test_indices_of_short_integers_are_refused() -> None:
    x, index = _device([1.0, 2.0], torch.tensor([0, 1], dtype=torch.int16))
    with pytest.raises(IndexError, match="hologram"):
        x[index]


def test_assertions_are_about_elements() -> None:
    (right, wrong, several) = _device(True, 0.0, [1.0, 1.0])
    torch.ops.aten._assert_async(right)
    with pytest.raises(RuntimeError, match="all of it"):
        torch.ops.aten._assert_async.msg(wrong, "all of it")
    with pytest.raises(RuntimeError, match="hologram"):
        torch.ops.aten._assert_async(several)


def test_targets_of_losses_may_be_bytes() -> None:
    def call(x: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
        x = x.detach().requires_grad_()
        loss = torch.nn.functional.cross_entropy(x, target, ignore_index=255)
        loss.backward()
        assert x.grad is not None
        return [loss.detach(), x.grad]

    x, target = torch.arange(12.0).reshape(3, 4).sin(), torch.tensor([0, 3, 255], dtype=torch.uint8)
    for here, there in zip(call(x, target), call(*_device(x, target)), strict=True):
        torch.testing.assert_close(there.cpu(), here)
    with pytest.raises(IndexError, match="hologram"):
        call(*_device(x, target + 4))


NOT_FINITE = (math.nan, math.inf, -math.inf, 1e30, 0.3, -1.7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grids_that_are_not_finite(mode: str, padding: str, aligned: bool, dtype: torch.dtype) -> None:
    for axes in (2, 3) if mode != "bicubic" else (2,):
        image = torch.arange(120, dtype=dtype).reshape(1, 2, *(3, 4, 5)[:axes], -1)[..., 0]
        numbers = NOT_FINITE if axes == 2 else (math.nan, 0.3, -1.7)
        grid = torch.tensor(list(itertools.product(numbers, repeat=axes)), dtype=dtype)
        grid = grid.reshape(1, *[1] * (axes - 1), -1, axes)
        wanted, found = (
            torch.nn.functional.grid_sample(image.to(d), grid.to(d), mode, padding, aligned).cpu()
            for d in ("cpu", "hologram")
        )
        torch.testing.assert_close(found, wanted, equal_nan=True, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_a_grid_that_is_nan_spoils_no_pixel_s_gradient(padding: str) -> None:
    """PyTorch's CPU writes outside of its memory here."""
    image = torch.ones(1, 1, 5, 6, device="hologram", requires_grad=True)
    grid = torch.tensor([[math.nan, 0.1], [0.2, 0.3]]).reshape(1, 1, 2, 2)
    torch.nn.functional.grid_sample(image, grid.to("hologram"), "bilinear", padding, False).sum().backward()
    assert image.grad is not None
    assert image.grad.isfinite().all()
    assert image.grad.sum().item() == pytest.approx(1.0 if padding == "zeros" else 2.0)


def test_lengths_of_segments_add_up() -> None:
    x = torch.arange(4.0, device="hologram")
    with pytest.raises(RuntimeError, match="must add up to 4"):
        torch.segment_reduce(x, "sum", lengths=torch.tensor([1, 2], device="hologram"))
    whole = torch.tensor([1, 3], device="hologram")
    assert torch.segment_reduce(x, "sum", lengths=whole).tolist() == [0.0, 6.0]
