"""Where results lie: as PyTorch's CPU lays them out, also in compiled graphs, so that views of them are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import hologram_torch  # noqa: E402, F401

F = torch.nn.functional
IMAGES = torch.arange(288.0).reshape(2, 4, 6, 6) % 7 - 3
VOLUMES = torch.arange(256.0).reshape(2, 2, 4, 4, 4) % 7 - 3
Call = Callable[[Any], Any]


def _ones(x: Any, *shape: int) -> Any:
    return torch.ones(*shape, device=x.device, dtype=x.dtype)


ON_IMAGES: dict[str, Call] = {
    "a convolution": lambda x: F.conv2d(x, _ones(x, 5, 4, 3, 3)),
    "its weight in channels_last": lambda x: F.conv2d(
        x.contiguous(), _ones(x, 5, 4, 3, 3).to(memory_format=torch.channels_last)
    ),
    "one channel": lambda x: F.conv2d(x, _ones(x, 1, 4, 3, 3), _ones(x, 1)),
    "groups": lambda x: F.conv2d(x, _ones(x, 4, 1, 3, 3), stride=2, groups=4),
    "a transposed convolution": lambda x: F.conv_transpose2d(x, _ones(x, 4, 3, 2, 2), stride=2),
    "batches in training": lambda x: F.batch_norm(x, None, None, training=True),
    "batches by what was seen": lambda x: F.batch_norm(x, _ones(x, 4), _ones(x, 4)),
    "pixels from channels": lambda x: F.pixel_shuffle(x, 2),
    "channels from pixels": lambda x: F.pixel_unshuffle(x, 2),
    "channels shuffled": lambda x: F.channel_shuffle(x, 2),
    "edges repeated": lambda x: F.pad(x, (1, 2, 1, 0), mode="replicate"),
    "edges reflected": lambda x: F.pad(x, (1, 2, 1, 0), mode="reflect"),
    "means": lambda x: F.adaptive_avg_pool2d(x, 2),
    "an interpolation": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "groups normalised": lambda x: F.group_norm(x, 2),
    "dropout": lambda x: F.dropout(x, 0.5) * 0,
    "chosen images": lambda x: x[torch.tensor([1, 0, 1], device=x.device)],
    "chosen channels": lambda x: x[:, torch.tensor([2, 0], device=x.device)],
    "a mask of images": lambda x: x[torch.tensor([False, True], device=x.device)],
    "in an empty output": lambda x: torch.mul(x, x, out=_ones(x, 0)),
    "stacked in an empty output": lambda x: torch.stack([x, x], 1, out=_ones(x, 0)),
    "factored in an empty output": lambda x: torch.linalg.ldl_solve(
        *torch.linalg.ldl_factor(x @ x.mT), x, out=_ones(x, 0)
    ),
    "in an output resized to itself": lambda x: x.clone().resize_(x.shape),
    "signs of others": lambda x: torch.copysign(x, x[:1]),
    "a transform": lambda x: torch.fft.rfft2(x, dim=(1, 3)).real,
    "a transform of all": lambda x: torch.fft.fftn(x + 0j, dim=(1, 3, 2)).real,
    "a transform to reals": lambda x: torch.fft.irfftn(x + 0j, dim=(1, 0, 3)),
    "positions": lambda x: (x > 2).nonzero(),
    "pairs of positions": lambda x: torch.argwhere(x[0, 0] > 2),
    "rolled": lambda x: torch.roll(x, (1, 2), (0, 1)),
    "rolled by nothing along one": lambda x: torch.roll(x, (1, 4), (0, 1)),
    "rolled as a row": lambda x: torch.roll(x, 3),
    "halves exchanged": torch.fft.fftshift,
    "slopes of no training": lambda x: F.rrelu(x, training=False),
    "logarithms of sigmoids": lambda x: F.logsigmoid(x),
    "floors": lambda x: torch.floor_divide(x, x[:1] + 4),
    "slopes of gates": lambda x: torch.ops.aten.glu_backward(x[:, ::2], x, 1),
    "slopes of squares": lambda x: torch.ops.aten.mse_loss_backward(x, x, x + 1, 0),
    "slopes of Huber's": lambda x: torch.ops.aten.huber_loss_backward(x, x, x + 1, 0, 2.0),
    "maxima put back": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    "those that are in": lambda x: torch.isin(x, x.flatten()[:3]),
    "quantised": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127),
    "quantised by tensors": lambda x: torch.fake_quantize_per_tensor_affine(
        x, _ones(x, 1), _ones(x, 1).int(), -128, 127
    ),
    "quantised by channels": lambda x: torch.fake_quantize_per_channel_affine(
        x, _ones(x, 4), _ones(x, 4).int(), 1, -128, 127
    ),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "attention of heads": lambda x: F.scaled_dot_product_attention(*[x.transpose(1, 2)] * 3),
    "attention of one repeated": lambda x: F.scaled_dot_product_attention(*[x[:1].expand(x.shape)] * 3),
    "attention of keys by columns": lambda x: F.scaled_dot_product_attention(x, x.mT.contiguous().mT, x),
    "attention of values by columns": lambda x: F.scaled_dot_product_attention(x, x, x.mT.contiguous().mT),
    "attention of narrower values": lambda x: F.scaled_dot_product_attention(x, x, x[..., :4].clone()),
    "attention with a mask of three axes": lambda x: F.scaled_dot_product_attention(x, x, x, x[0]),
    "attention to shared values by columns": lambda x: F.scaled_dot_product_attention(
        x, x[:, :2], x[:, :2].mT.contiguous().mT, enable_gqa=True
    ),
    "a copy of a view": lambda x: torch.view_copy(x, (8, 36)),
}


def _lies_alike(call: Call, x: Any) -> None:
    found, want = call(x.to("hologram")), call(x)
    assert (found.shape, found.stride()) == (want.shape, want.stride())
    torch.testing.assert_close(found.cpu(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ON_IMAGES)
def test_images(name: str) -> None:
    for x in (
        IMAGES,
        IMAGES.to(memory_format=torch.channels_last),
        IMAGES.transpose(0, 3)[:4].transpose(0, 1),
    ):
        if x.shape == IMAGES.shape:
            for _ in range(2):  # the second call may go another way
                _lies_alike(ON_IMAGES[name], x)


ON_LISTS: dict[str, Call] = {
    "numbers": lambda x: torch._foreach_mul([x, x + 1], 2.0),
    "a number for each": lambda x: torch._foreach_add([x, x + 1], [2.0, 3.0]),
    "two lists": lambda x: torch._foreach_maximum([x, x + 1], [2 - x, x]),
    "a list row by row": lambda x: torch._foreach_mul([x, x.contiguous()], [x.contiguous(), x]),
    "three lists": lambda x: torch._foreach_addcmul([x, x], [x + 1, x], [x, x + 2], 0.5),
    "each alone": lambda x: torch._foreach_abs([x, x[:1].expand(x.shape)]),
}


@pytest.mark.parametrize("name", ON_LISTS)
def test_lists(name: str) -> None:
    for x in (IMAGES, IMAGES.to(memory_format=torch.channels_last), IMAGES.transpose(2, 3)):
        for found, want in zip(ON_LISTS[name](x.to("hologram")), ON_LISTS[name](x), strict=True):
            assert found.stride() == want.stride()
            torch.testing.assert_close(found.cpu(), want)


ON_VOLUMES: dict[str, Call] = {
    "a convolution": lambda x: F.conv3d(x, _ones(x, 3, 2, 2, 2, 2), _ones(x, 3)),
    "groups": lambda x: F.conv3d(x, _ones(x, 4, 1, 2, 2, 2), groups=2),
    "a transposed convolution": lambda x: F.conv_transpose3d(x, _ones(x, 2, 3, 2, 2, 2), stride=2),
    "in f64": lambda x: F.conv3d(x.double(), _ones(x, 3, 2, 2, 2, 2).double()),
}


@pytest.mark.parametrize("name", ON_VOLUMES)
def test_volumes(name: str) -> None:
    _lies_alike(ON_VOLUMES[name], VOLUMES)
    _lies_alike(lambda x: ON_VOLUMES[name](x).view(2, -1), VOLUMES)
    found = ON_VOLUMES[name](VOLUMES.to("hologram").to(memory_format=torch.channels_last_3d))
    assert found.is_contiguous(memory_format=torch.channels_last_3d) == (name != "in f64")


LOSSES: dict[str, Call] = {
    "squares": lambda x: F.mse_loss(x, x.detach() + 1),
    "smooth": lambda x: F.smooth_l1_loss(x, x.detach() + 1),
    "gates": lambda x: F.glu(x, 1).sum(),
    "logarithms of sigmoids": lambda x: F.logsigmoid(x).sum(),
    "quantised": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127).sum(),
    "rolled": lambda x: torch.roll(x, 1, 0).square().sum(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_losses(name: str) -> None:
    slopes = []
    for device in ("cpu", "hologram"):
        x = IMAGES.to(device).to(memory_format=torch.channels_last).requires_grad_()
        (slope,) = torch.autograd.grad(LOSSES[name](x), x)
        slopes.append((slope.stride(), slope.cpu()))
    assert slopes[0][0] == slopes[1][0]
    torch.testing.assert_close(slopes[1][1], slopes[0][1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["a convolution", "a transposed convolution", "batches in training"])
def test_gradients_of_images(name: str) -> None:
    slopes = []
    for device in ("cpu", "hologram"):
        x = IMAGES.to(device).to(memory_format=torch.channels_last).requires_grad_()
        (slope,) = torch.autograd.grad(ON_IMAGES[name](x).square().sum(), x)
        slopes.append((slope.stride(), slope.cpu()))
    assert slopes[0][0] == slopes[1][0]
    torch.testing.assert_close(slopes[1][1], slopes[0][1], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("columns", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_gradients_of_attention_by_columns(way: str, columns: tuple[int, ...]) -> None:
    def attended(device: str) -> list[Any]:
        torch.manual_seed(0)
        given = [torch.randn(2, 3, n, 8) for n in (5, 7, 7)]
        laid = [x.mT.contiguous().mT if k in columns else x for k, x in enumerate(given)]
        operands = [x.to(device).requires_grad_() for x in laid]
        call = F.scaled_dot_product_attention
        if way == "compiled" and device != "cpu":
            call = torch.compile(call, backend="hologram")
        result = call(*operands)
        cotangent = torch.randn(result.shape).to(device)
        return [result, *torch.autograd.grad(result, operands, cotangent)]

    for found, wanted in zip(attended("hologram"), attended("cpu"), strict=True):
        assert found.stride() == wanted.stride()
        torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "a convolution",
        "batches in training",
        "pixels from channels",
        "signs of others",
        "a transform",
        "a transform of all",
    ],
)
def test_compiled_graphs_lie_as_they_say(name: str) -> None:
    """A graph takes `reshape` for the view that it is of its fake tensors."""
    x = IMAGES.to(memory_format=torch.channels_last)

    def whole(x: Any) -> Any:
        return ON_IMAGES[name](x + 1).reshape(2, -1) * 2

    found = torch.compile(whole, backend="hologram")(x.to("hologram"))
    torch.testing.assert_close(found.cpu(), whole(x), rtol=1e-4, atol=1e-4)


def test_compiled_convolutions_keep_channels_last() -> None:
    x = IMAGES.to("hologram").to(memory_format=torch.channels_last)
    weight = torch.ones(5, 4, 3, 3, device="hologram", requires_grad=True)
    found = torch.compile(lambda x: F.conv2d(x, weight).relu(), backend="hologram")(x)
    assert found.is_contiguous(memory_format=torch.channels_last)
    found.sum().backward()
    assert weight.grad is not None


@pytest.mark.parametrize(
    "name",
    [
        "pixels from channels", "channels shuffled", "rolled", "halves exchanged", "groups normalised",
        "a transform to reals", "logarithms of sigmoids", "slopes of no training", "floors", "slopes of gates",
        "slopes of squares", "slopes of Huber's", "maxima put back", "attention of heads",
        "attention of values by columns", "attention of narrower values",
    ],
)  # fmt: skip
def test_compiled_results_lie_as_the_hosts(name: str) -> None:
    call = torch.compile(ON_IMAGES[name], backend="hologram", dynamic=False)
    for images in (IMAGES, torch.cat([IMAGES, IMAGES], 1)):
        for x in (images, images.to(memory_format=torch.channels_last)):
            found, wanted = call(x.to("hologram")), ON_IMAGES[name](x)
            assert [n for n, size in zip(found.stride(), found.shape, strict=True) if size > 1] == [
                n for n, size in zip(wanted.stride(), wanted.shape, strict=True) if size > 1
            ]
            torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-4)
