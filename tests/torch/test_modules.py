"""Modules of torch.nn compute on the device what they compute on the host, forward and backward."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401

nn = torch.nn


def _floats(*shapes: Sequence[int]) -> list[Any]:
    return [torch.randn(*shape) for shape in shapes]


MODULES: dict[str, tuple[Callable[[], Any], Callable[[], list[Any]]]] = {
    "LSTM": (lambda: nn.LSTM(5, 7, 2, bidirectional=True), lambda: _floats((4, 3, 5))),
    "GRU": (lambda: nn.GRU(5, 7, batch_first=True), lambda: _floats((4, 3, 5))),
    "RNN": (lambda: nn.RNN(5, 7), lambda: _floats((4, 3, 5))),
    "Transformer": (
        lambda: nn.Transformer(16, 4, 1, 1, 32, batch_first=True, dropout=0.0),
        lambda: _floats((2, 6, 16), (2, 5, 16)),
    ),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(16, 4), lambda: _floats(*[(6, 2, 16)] * 3)),
    "Embedding": (lambda: nn.Embedding(10, 4, padding_idx=2), lambda: [torch.randint(0, 10, (3, 4))]),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(10, 4, mode="max"), lambda: [torch.randint(0, 10, (3, 4))]),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), lambda: _floats((2, 4, 5, 5))),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), lambda: _floats((2, 4, 5))),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(4, affine=True), lambda: _floats((2, 4, 5))),
    "Conv2d": (lambda: nn.Conv2d(4, 6, 3, groups=2, padding="same"), lambda: _floats((2, 4, 5, 6))),
    "Conv3d": (lambda: nn.Conv3d(3, 4, 3, padding=1, stride=2), lambda: _floats((2, 3, 5, 6, 7))),
    "ConvTranspose3d": (
        lambda: nn.ConvTranspose3d(4, 2, 3, stride=2, output_padding=1, padding=1),
        lambda: _floats((2, 4, 3, 3, 3)),
    ),
    "MaxPool2d": (lambda: nn.MaxPool2d(3, 2, 1, ceil_mode=True), lambda: _floats((2, 3, 6, 7))),
    "AvgPool3d": (lambda: nn.AvgPool3d(2, ceil_mode=True), lambda: _floats((1, 2, 5, 4, 3))),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d((3, 2)), lambda: _floats((2, 3, 7, 5))),
    "Upsample": (lambda: nn.Upsample(scale_factor=2.0, mode="bicubic"), lambda: _floats((2, 3, 4, 5))),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d((1, 2, 0, 3)), lambda: _floats((2, 3, 5, 4))),
    "PReLU": (lambda: nn.PReLU(3), lambda: _floats((2, 3, 4))),
    "Fold": (lambda: nn.Fold((4, 5), (2, 2)), lambda: _floats((1, 8, 12))),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    torch.manual_seed(0)
    make, arguments = MODULES[name]
    host, inputs = make(), arguments()
    ours = copy.deepcopy(host).to("hologram")
    found = [_results(module, inputs, device) for module, device in ((ours, "hologram"), (host, "cpu"))]
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def _results(module: Any, inputs: list[Any], device: str) -> list[Any]:
    """Results, gradients of inputs and parameters, and buffers, all on the host."""
    given = [x.detach().to(device).requires_grad_(x.is_floating_point()) for x in inputs]
    results = [x for x in torch.utils._pytree.tree_leaves(module(*given)) if isinstance(x, torch.Tensor)]
    weights = [torch.linspace(-1, 1, x.numel()).reshape(x.shape).to(device) for x in results]
    total: Any = sum((x * w).sum() for x, w in zip(results, weights, strict=True))
    total.backward()
    grown = [x.grad for x in given if x.requires_grad] + [p.grad for p in module.parameters()]
    return [x.detach().cpu() for x in (*results, *grown, *module.buffers())]


def test_dropout_leaves_out_as_many_as_asked() -> None:
    torch.manual_seed(0)
    x = torch.ones(20_000, device="hologram", requires_grad=True)
    y = nn.functional.dropout(x, 0.25)
    y.sum().backward()
    kept = y.detach().cpu() != 0
    assert abs(kept.float().mean().item() - 0.75) < 0.02
    assert torch.equal(x.grad.cpu(), kept / 0.75)
    torch.manual_seed(0)
    assert torch.equal(nn.functional.dropout(x.detach(), 0.25).cpu(), y.detach().cpu())


@pytest.mark.parametrize(
    "call",
    [
        lambda device: nn.functional.embedding(
            torch.tensor([3], device=device), torch.ones(3, 2, device=device)
        ),
        lambda device: nn.functional.nll_loss(
            torch.zeros(2, 3, device=device), torch.tensor([0, 7], device=device)
        ),
    ],
)
def test_numbers_out_of_range(call: Callable[[str], Any]) -> None:
    with pytest.raises(IndexError):
        call("cpu")
    with pytest.raises(IndexError, match="hologram"):
        call("hologram")


def test_convolutions_of_other_dtypes_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"hologram.*should be the same"):
        nn.functional.conv1d(
            torch.ones(1, 1, 4, device="hologram"), torch.ones(1, 1, 2, device="hologram").double()
        )
