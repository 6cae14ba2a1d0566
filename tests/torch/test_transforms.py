"""torch.func: Jacobians and batches of what PyTorch's own rules do not get right, or the device had no kernel for."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401

X = torch.arange(15.0).reshape(3, 5).sin()


def _row_by_row(function: Any, x: Any) -> Any:
    return torch.autograd.functional.jacobian(function, x)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, math.inf])
def test_jacobians_of_distances(p: float, ties: bool) -> None:
    y = X + 1 if ties else X.flip(1) * 1.5 + torch.arange(5.0)
    for function in (
        lambda q: torch.cdist(q, y.to(q.device), p),
        lambda q: torch.cdist(y.to(q.device)[:2], q, p),
    ):
        want, there = _row_by_row(function, X), X.to("hologram")
        torch.testing.assert_close(torch.func.jacrev(function)(there).cpu(), want, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(torch.func.jacfwd(function)(there).cpu(), want, rtol=1e-4, atol=1e-5)
        both = torch.func.vmap(torch.func.jacrev(function))(torch.stack([there, there * 2])).cpu()
        torch.testing.assert_close(both[0], want, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(both[1], _row_by_row(function, X * 2), rtol=1e-4, atol=1e-5)


def test_second_derivatives_of_distances() -> None:
    y = X.flip(0) + 2
    found = torch.func.hessian(lambda q: torch.cdist(q, y.to(q.device)).sum())(X.to("hologram"))
    want = torch.func.hessian(lambda q: (q[:, None] - y).square().sum(-1).sqrt().sum())(X)
    torch.testing.assert_close(found.cpu(), want, rtol=1e-4, atol=1e-5)
