"""torch.compile with sizes that change: compiled for those that come again, operator by operator for the others."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import hologram_torch  # noqa: E402, F401
from hologram_torch.compile.compiled import RARE, CompiledGraph  # noqa: E402


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[CompiledGraph]]:
    """The graph of each signature that was compiled."""
    torch.compiler.reset()
    graphs: list[CompiledGraph] = []
    own = CompiledGraph.variant

    def noted(graph: Any, *args: Any) -> Any:
        graphs.append(graph)
        return own(graph, *args)

    monkeypatch.setattr(CompiledGraph, "variant", noted)
    yield graphs
    torch.compiler.reset()


def _step(model: Any, x: Any) -> list[Any]:
    """The loss, the gradients, and what the model remembers of the step."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    loss = model(x).square().mean()
    loss.backward()
    remembered = [b for b in model.buffers() if b.is_floating_point()]
    return [
        t.detach().cpu().clone() for t in (loss, x.grad, *(p.grad for p in model.parameters()), *remembered)
    ]


def test_training_of_changing_lengths(made: list[CompiledGraph]) -> None:
    torch.manual_seed(0)
    host = nn.Sequential(nn.Conv1d(3, 6, 3, padding=1), nn.BatchNorm1d(6), nn.GELU(), nn.AdaptiveAvgPool1d(1))
    device = copy.deepcopy(host).to("hologram")
    compiled = torch.compile(device, dynamic=True, fullgraph=True)
    for n in (8, 9, 10, 12, 15, 21, 9, 10, 8):
        x = torch.randn(4, 3, n)
        for found, wanted in zip(_step(compiled, x.to("hologram")), _step(host, x), strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    assert len(made) == len(set(map(id, made))) == 2  # the first length, forward and backward


class Attentive(nn.Module):
    """A layer with attention that drops no weights, though PyTorch counts it among what draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.inward, self.outward = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.inward(x).split(8, -1))
        found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.outward(found.transpose(1, 2).flatten(2))


def test_attention_of_changing_lengths(made: list[CompiledGraph]) -> None:
    torch.manual_seed(0)
    host = Attentive()
    device = copy.deepcopy(host).to("hologram")
    compiled = torch.compile(device, dynamic=True, fullgraph=True)
    for n in (11, 9, 10, 13, 9):
        x = torch.randn(2, n, 8)
        for found, wanted in zip(_step(compiled, x.to("hologram")), _step(host, x), strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    assert len(made) == len(set(map(id, made))) == 2


def test_what_comes_again_is_compiled(made: list[CompiledGraph]) -> None:
    run = torch.compile(lambda x: (x @ x.t()).softmax(-1).sum(0), dynamic=True)
    few, more = torch.randn(5, 4), torch.randn(7, 4)
    run(few.to("hologram"))
    for k in range(RARE + 2):
        torch.testing.assert_close(run(more.to("hologram")).cpu(), (more @ more.t()).softmax(-1).sum(0))
        assert len(made) == (1 if k < RARE else 2)


def test_random_numbers_and_results_on_the_host_are_compiled_at_once(made: list[CompiledGraph]) -> None:
    run = torch.compile(lambda x: nn.functional.dropout(x, 0.5), dynamic=True)
    for n in (30, 40):
        assert set(run(torch.ones(n, device="hologram")).cpu().tolist()) == {0.0, 2.0}
    attend = nn.functional.scaled_dot_product_attention
    some = torch.compile(lambda x: attend(x, x, x, dropout_p=0.5), dynamic=True)
    for n in (30, 40):
        some(torch.ones(1, n, 4, device="hologram"))
    assert len(made) == 4
    here = torch.compile(lambda x: x * 2, backend="hologram", dynamic=True)
    for n in (30, 40):
        assert here(torch.ones(n)).tolist() == [2.0] * n
    assert len(made) == 6


def test_where_many_sizes_come_again_some_are_not_compiled(
    made: list[CompiledGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hologram_torch.compile.compiled.MAX_SIGNATURES", 2)
    run = torch.compile(lambda x: x.exp().sum(0), dynamic=True)
    for _ in range(RARE + 3):
        for n in (5, 6, 7, 8):
            x = torch.randn(n, 3)
            torch.testing.assert_close(run(x.to("hologram")).cpu(), x.exp().sum(0))
    assert len(made) == 2
