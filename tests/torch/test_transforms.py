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


def test_tangents_of_gated_linear_units() -> None:
    x = torch.arange(24.0).reshape(3, 8).cos()
    for dim in (1, -1):
        function = lambda q, dim=dim: torch.nn.functional.glu(q, dim)  # noqa: E731
        there = x.to("hologram")
        found = torch.func.jacfwd(function)(there).cpu()
        torch.testing.assert_close(found, _row_by_row(function, x), rtol=1e-4, atol=1e-5)
        bent = torch.func.jacfwd(torch.func.jacrev(lambda q, f=function: f(q).square().sum()))
        torch.testing.assert_close(bent(there).cpu(), bent(x), rtol=1e-4, atol=1e-5)


def test_batches_of_one_operand() -> None:
    target, x = X[0], torch.stack([X[0], X[1] + 1])
    for reduction in ("none", "mean", "sum"):
        loss = lambda q, r=reduction: torch.nn.functional.mse_loss(q, target.to(q.device), reduction=r)  # noqa: E731
        torch.testing.assert_close(torch.func.vmap(loss)(x.to("hologram")).cpu(), torch.func.vmap(loss)(x))
    a = torch.eye(3) + X[:, :3].tril() * 0.3
    solve = lambda b: torch.triangular_solve(b, a.to(b.device), upper=False)[0]  # noqa: E731
    torch.testing.assert_close(
        torch.func.vmap(solve)(torch.stack([X, X * 2]).to("hologram")).cpu()[1], solve(X * 2)
    )
    found = torch.func.jacrev(solve)(X.to("hologram")).cpu()
    torch.testing.assert_close(found, _row_by_row(solve, X), rtol=1e-4, atol=1e-5)
