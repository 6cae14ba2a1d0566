"""What kernels read of tables is recorded with them: from the third call on nothing is planned, no table written."""

# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
import torch
from torch.nn import functional

from hologram_torch.kernels.short import quick

aten = torch.ops.aten
CALLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "means of windows": lambda x: functional.avg_pool2d(x, 2),
    "adaptive means": lambda x: functional.adaptive_avg_pool2d(x, (3, 2)),
    "nearest": lambda x: functional.interpolate(x, scale_factor=2),
    "bilinear": lambda x: functional.interpolate(x, size=(9, 5), mode="bilinear"),
    "reflected": lambda x: functional.pad(x, (1, 2, 1, 1), mode="reflect"),
    "threshold": lambda x: aten.threshold_backward(x, x * 2, 0.5),
    "lerp": lambda x: torch.lerp(x, x * 2, 0.3),
    "cross entropy with logits": lambda x: functional.binary_cross_entropy_with_logits(x, torch.sigmoid(x)),
    "row added": lambda x: torch.addmm(x[0, 0, 0], x[0, 0], x[0, 0].t() @ x[0, 0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_and_their_gradients_are_recorded(name: str, long_ways: list[str]) -> None:
    for k in range(5):
        if k == 3:
            long_ways.clear()
        there = torch.randn(2, 3, 8, 6).requires_grad_()
        here = there.detach().to("hologram").requires_grad_()
        found, wanted = CALLS[name](here), CALLS[name](there)
        torch.testing.assert_close(found.cpu(), wanted, atol=1e-5, rtol=1e-4)
        if not name.startswith("threshold"):  # itself a derivative
            for result in (found, wanted):
                result.square().sum().backward()
            torch.testing.assert_close(here.grad.cpu(), there.grad, atol=1e-4, rtol=1e-4)
    assert long_ways == []


def test_what_a_template_launches_holds_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which are kept for a while only, and their memory is others' then."""
    followed: list[Any] = []
    follow = quick.follow

    def noted(recipe: Any, *given: Any) -> Any:
        followed.append(recipe)
        return follow(recipe, *given)

    monkeypatch.setattr(quick, "follow", noted)
    for n in range(2, 12):  # batches; sizes of 1 are part of the class, and so is their table
        x = torch.randn(n, 3, 1, 1)
        found = functional.interpolate(x.to("hologram"), size=(1, 1), mode="bilinear")
        torch.testing.assert_close(found.cpu(), x)
    launched = [recipe.structure for recipe in followed if recipe.structure is not None]
    assert launched
    assert all(structure.held for structure in launched)
