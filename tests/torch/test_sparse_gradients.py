"""Embeddings whose gradients are sparse: the steps of optimisers, and what such gradients are asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401

OPTIMISERS: dict[str, Callable[..., Any]] = {
    "SparseAdam": partial(torch.optim.SparseAdam, lr=0.1),
    "SGD": partial(torch.optim.SGD, lr=0.1),
    "SGD with momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "Adagrad": partial(torch.optim.Adagrad, lr=0.1),
}


def gradient(device: str, dtype: Any = torch.float32) -> Any:
    torch.manual_seed(0)
    table = torch.nn.Embedding(6, 4, sparse=True, dtype=dtype).to(device)
    table(torch.tensor([[1, 2], [1, 5]], device=device)).square().sum().backward()
    return table.weight.grad


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_are_those_of_the_cpu(name: str, times: int) -> None:
    def trained(device: str) -> Any:
        torch.manual_seed(0)
        table = torch.nn.Embedding(6, 4, sparse=True, padding_idx=2).to(device)
        steps = OPTIMISERS[name](table.parameters())
        for k in range(3):
            steps.zero_grad()
            for _ in range(times):  # gradients that add up
                table(torch.tensor([1, 2, 1, 5 - k], device=device)).square().sum().backward()
            assert table.weight.grad.layout == torch.sparse_coo
            assert table.weight.grad.device.type == device
            steps.step()
        return table.weight.detach().cpu()

    torch.testing.assert_close(trained("hologram"), trained("cpu"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_what_gradients_are_asked(dtype: Any) -> None:
    for call in (
        lambda g: g.to_dense(), lambda g: g.coalesce().indices(), lambda g: g.coalesce().values(), lambda g: g * 2,
        lambda g: (g / 4).to_dense(), lambda g: g.clone().mul_(3), lambda g: g + g, lambda g: g._nnz(),
        lambda g: torch.ones(6, 4, dtype=dtype, device=g.device).add(g, alpha=-0.5),
        lambda g: g.is_coalesced(),
        lambda g: torch.arange(24.0, device=g.device).reshape(6, 4).T.reshape(6, 4).sparse_mask(g.coalesce()),
        lambda g: g.detach().zero_().to_dense(), lambda g: torch.zeros_like(g)._nnz(), lambda g: g.device.type,
    ):  # fmt: skip
        ours, theirs = call(gradient("hologram", dtype)), call(gradient("cpu", dtype))
        if isinstance(theirs, torch.Tensor):
            assert ours.device.type == "hologram"
            assert ours.layout == theirs.layout
            assert ours.is_sparse == theirs.is_sparse
            torch.testing.assert_close(ours.cpu().to_dense(), theirs.to_dense())
        else:
            assert ours == {"cpu": "hologram"}.get(theirs, theirs)


def test_a_gradient_goes_to_the_host_and_back() -> None:
    there = gradient("hologram")
    back = there.cpu().to("hologram")
    assert back.layout == torch.sparse_coo
    torch.testing.assert_close(back.to_dense().cpu(), gradient("cpu").to_dense())
    assert "size=(6, 4)" in str(there)


def test_what_is_refused() -> None:
    there = gradient("hologram")
    with pytest.raises(NotImplementedError, match="scaled by numbers or a dense one"):
        there.mul(there)
    with pytest.raises(RuntimeError, match="dense"):
        there.add(torch.ones(6, 4, device="hologram"))
    with pytest.raises(RuntimeError, match="shape"):
        torch.ones(5, 4, device="hologram").add_(there)
