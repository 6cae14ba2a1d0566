"""torchaudio's operators, by its schemas: against dynamic programming in Python, and autograd for derivatives."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401

SCHEMAS = {
    "forced_align": "(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank)"
    " -> (Tensor, Tensor)",
    "rnnt_loss": "(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank, "
    "float clamp, bool fused_log_softmax) -> (Tensor, Tensor?)",
}
_library = torch.library.Library("torchaudio", "FRAGMENT")
for _name, _schema in SCHEMAS.items():
    if not hasattr(torch.ops.torchaudio, _name):  # where torchaudio is installed, it may come later
        _library.define(_name + _schema)


def _ints(*numbers: Any) -> Any:
    return torch.tensor(numbers, dtype=torch.int32, device="hologram")


def _cost(logs: Any, target: list[int], blank: int) -> Any:
    """The cost of one text, by steps and symbols, differentiable."""
    steps, width = logs.shape[:2]
    ways: dict[tuple[int, int], Any] = {}
    for t, u in itertools.product(range(steps), range(width)):
        into = [torch.zeros((), dtype=logs.dtype)] if t == u == 0 else []
        into += [ways[t - 1, u] + logs[t - 1, u, blank]] if t else []
        into += [ways[t, u - 1] + logs[t, u - 1, target[u - 1]]] if u else []
        ways[t, u] = torch.logsumexp(torch.stack(into), 0)
    return -(ways[steps - 1, width - 1] + logs[-1, -1, blank])


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("clamp", [-1.0, 0.1])
@pytest.mark.parametrize("blank", [0, 4])
def test_the_transducers_loss(blank: int, clamp: float, fused: bool) -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 6, 4, 5)
    targets = [[1, 2, 2], [3, 1, 0], [2, 0, 0]]
    steps, symbols = [6, 4, 5], [3, 2, 0]
    given = (logits if fused else logits.log_softmax(-1)).clone().requires_grad_()
    logs = given.log_softmax(-1) if fused else given
    want = torch.stack(
        [
            _cost(logs[k, :t, : u + 1], targets[k][:u], blank)
            for k, (t, u) in enumerate(zip(steps, symbols, strict=True))
        ]
    )
    scale = torch.tensor([1.0, -2.0, 0.5])
    (unclamped,) = torch.autograd.grad(want.sum(), given)
    slopes = unclamped.clamp(-clamp, clamp) if clamp > 0 else unclamped
    there = given.detach().to("hologram").requires_grad_()
    costs, found = torch.ops.torchaudio.rnnt_loss(
        there, _ints(*targets), _ints(*steps), _ints(*symbols), blank, clamp, fused
    )
    torch.testing.assert_close(costs.cpu(), want.detach(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found.cpu(), slopes, rtol=1e-4, atol=1e-5)
    (costs * scale.to("hologram")).sum().backward()
    torch.testing.assert_close(there.grad.cpu(), slopes * scale[:, None, None, None], rtol=1e-4, atol=1e-5)


def test_the_transducers_loss_of_half_precision() -> None:
    torch.manual_seed(1)
    logits = torch.randn(1, 40, 11, 8)
    target = torch.randint(1, 8, (1, 10), dtype=torch.int32)
    want = _cost(logits[0].log_softmax(-1), target[0].tolist(), 0)
    costs, _ = torch.ops.torchaudio.rnnt_loss(
        logits.to("hologram", torch.float16), target.to("hologram"), _ints(40), _ints(10), 0, -1.0, True
    )
    assert costs.dtype == torch.float16
    assert costs.item() == pytest.approx(want.item(), rel=2e-3)


def _best(logs: Any, target: list[int], blank: int) -> float:
    """The best sum of logarithms over all paths that spell the target, by trying them all."""
    best = -math.inf
    for path in itertools.product(range(logs.shape[1]), repeat=logs.shape[0]):
        spelled = [s for s, _ in itertools.groupby(path) if s != blank]
        if spelled == target:
            best = max(best, sum(logs[t, s].item() for t, s in enumerate(path)))
    return best


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("target", [[1], [1, 2], [2, 2], [1, 2, 1], [3, 3, 1]])
def test_the_best_alignment(target: list[int], dtype: Any) -> None:
    torch.manual_seed(len(target))
    logs = torch.randn(1, 6, 4).log_softmax(-1)
    path, scores = torch.ops.torchaudio.forced_align(
        logs.to("hologram"),
        torch.tensor([target], dtype=dtype, device="hologram"),
        _ints(6),
        _ints(len(target)),
        0,
    )
    assert (path.dtype, path.shape, scores.shape) == (dtype, (1, 6), (1, 6))
    assert [s for s, _ in itertools.groupby(path[0].tolist()) if s] == target
    torch.testing.assert_close(scores[0].cpu(), logs[0].gather(1, path[0].cpu().long()[:, None])[:, 0])
    assert scores.sum().item() == pytest.approx(_best(logs[0], target, 0), rel=1e-5)


def test_what_is_refused() -> None:
    logs, call = torch.zeros(1, 3, 4, device="hologram"), torch.ops.torchaudio.forced_align
    with pytest.raises(RuntimeError, match=r"hologram, forced_align: targets length is too long"):
        call(logs, _ints([1, 1]), _ints(2), _ints(2), 0)
    with pytest.raises(RuntimeError, match=r"hologram, forced_align: batches must be of one"):
        call(logs.expand(2, 3, 4), _ints([1, 1]), _ints(2), _ints(2), 0)
    with pytest.raises(RuntimeError, match=r"hologram, rnnt_loss: targets and lengths must be int32"):
        torch.ops.torchaudio.rnnt_loss(logs[None], _ints([1]).long(), _ints(1), _ints(1), 0, -1.0, True)
