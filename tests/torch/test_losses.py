"""Losses with marks among their targets, targets that do not fit, or a single row: what PyTorch's CPU gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812

import hologram_torch  # noqa: E402, F401

REDUCTIONS = ("none", "mean", "sum")


def compare(loss: Callable[..., Any], x: Any, *others: Any, **settings: Any) -> None:
    """Holds a loss and its derivative on the device to the CPU's."""
    found = []
    for device in ("cpu", "hologram"):
        own = x.detach().to(device).requires_grad_()
        result = loss(own, *(v.to(device) for v in others), **settings)
        result.sum().backward()
        found.append((result.detach().cpu(), own.grad.cpu()))
    for expected, given in zip(*found, strict=True):
        torch.testing.assert_close(given, expected, atol=1e-5, rtol=1e-4, equal_nan=True)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.huber_loss])
def test_losses_of_no_elements(loss: Callable[..., Any], reduction: str) -> None:
    compiled = torch.compile(loss, backend="hologram", dynamic=False)
    for shape in ((0,), (0, 3), (2, 0)):
        x, target = torch.ones(shape), torch.zeros(shape)
        compare(loss, x, target, reduction=reduction)
        own = x.to("hologram").requires_grad_()
        compiled(own, target.to("hologram"), reduction=reduction).sum().backward()
        assert own.grad.shape == shape


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_squares_are_the_hosts(reduction: str) -> None:
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    compare(F.mse_loss, x, torch.ones_like(x), reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_labels_end_at_the_first_mark(reduction: str) -> None:
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    target = torch.tensor([[0, 2, -1, 1, 1], [1, -1, 0, 0, 0], [-1, 0, 0, 0, 0], [4, 3, 2, 1, 0]])
    compare(F.multilabel_margin_loss, x, target, reduction=reduction)
    compare(F.multilabel_margin_loss, x[0], target[0], reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_single_target_gives_a_single_loss(reduction: str) -> None:
    x = torch.randn(5, generator=torch.Generator().manual_seed(0))
    compare(F.multi_margin_loss, x, torch.tensor(2), reduction=reduction)
    compare(F.multi_margin_loss, x, torch.tensor([2]), reduction=reduction)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_targets_longer_than_their_inputs_have_no_derivative(zero_infinity: bool) -> None:
    x = torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(0)).log_softmax(2)
    targets = torch.tensor([[1, 2, 3], [1, 2, 3]])
    lengths = (torch.tensor([6, 2]), torch.tensor([3, 3]))
    compare(F.ctc_loss, x, targets, *lengths, zero_infinity=zero_infinity)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("beta", [0.0, 0.5, 3.0])
def test_a_loss_hides_no_nan_from_its_derivative(reduction: str, beta: float) -> None:
    x = torch.tensor([float("nan"), 0.5, 1.0, 1.5, 4.0, -2.0, float("inf"), float("-inf")])
    compare(F.smooth_l1_loss, x, torch.ones(8), reduction=reduction, beta=beta)


@pytest.mark.parametrize("eps", [None, 0.25])
def test_logit_hides_no_nan_from_its_derivative(eps: float | None) -> None:
    # Where PyTorch's CPU goes by vectors of f64, it gives 0 for a NaN.
    compare(torch.logit, torch.tensor([float("nan"), 0.0, 0.2, 0.5, 1.0, 2.0]), eps=eps)


def test_targets_may_be_empty() -> None:
    x = torch.randn(7, 3, 6, generator=torch.Generator().manual_seed(0)).log_softmax(2)
    none, rows = torch.zeros(0, dtype=torch.long), torch.ones(3, 2, dtype=torch.long)
    for targets, given, lengths in (
        (none, [7, 7, 7], [0, 0, 0]),
        (rows[:, :0], [7, 3, 1], [0, 0, 0]),
        (rows, [7, 3, 2], [2, 0, 1]),
        (torch.tensor([1, 2, 3]), [7, 7, 2], [0, 2, 1]),
    ):
        for reduction in REDUCTIONS:
            compare(F.ctc_loss, x, targets, input_lengths=given, target_lengths=lengths, reduction=reduction)
    compare(F.ctc_loss, x[:1], none, input_lengths=[1, 1, 1], target_lengths=[0, 0, 0])
