"""Mixed precision: PyTorch's lists of operators, and the scaling of losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401

F = torch.nn.functional


@pytest.fixture
def x() -> Any:
    torch.manual_seed(0)
    return torch.randn(4, 4).to("hologram")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("function", "wide"),
    [
        (lambda x: x @ x, False),
        (lambda x: F.linear(x, x, x[0]), False),
        (lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]), False),
        (lambda x: F.conv1d(x[None], x[:, :, None]), False),
        (lambda x: (x @ x).exp(), True),
        (lambda x: F.layer_norm(x @ x, (4,)), True),
        (lambda x: torch.softmax(x @ x, -1), True),
        (lambda x: (x @ x).sum(), True),
        (lambda x: F.cross_entropy(x @ x, torch.arange(4, device=x.device)), True),
        (lambda x: torch.cat([x, x @ x]), True),
        (lambda x: F.relu(x @ x), False),
    ],
)
def test_dtypes(x: Any, dtype: Any, function: Callable[..., Any], wide: bool) -> None:
    with torch.autocast("hologram", dtype=dtype):
        assert function(x).dtype == (torch.float32 if wide else dtype)
        with torch.autocast("hologram", enabled=False):
            assert (x @ x).dtype == torch.float32
    assert (x.double() @ x.double()).dtype == torch.float64


def test_what_is_unsafe_is_refused(x: Any) -> None:
    with torch.autocast("hologram"), pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
        F.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(x))


@pytest.mark.parametrize("fused", [False, True])
def test_steps_with_infinite_gradients_are_left_out(fused: bool) -> None:
    model = torch.nn.Linear(4, 2).to("hologram")
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01, fused=fused)
    scaler = torch.amp.GradScaler("hologram", init_scale=1024.0, growth_interval=2)
    data = torch.ones(3, 4, device="hologram")
    scales, moved = [], []
    for factor in (1.0, 1.0, float("inf"), 1.0):
        optimiser.zero_grad()
        with torch.autocast("hologram", dtype=torch.float16):
            loss = model(data).float().square().mean()
        before = model.weight.detach().clone()
        scaler.scale(loss * factor).backward()
        scaler.step(optimiser)
        scaler.update()
        scales.append(scaler.get_scale())
        moved.append(not torch.equal(before.cpu(), model.weight.detach().cpu()))
    assert scales == [1024.0, 2048.0, 1024.0, 1024.0]
    assert moved == [True, True, False, True]


def test_gradients_reach_parameters_in_their_own_dtype() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).to("hologram")
    with torch.autocast("hologram", dtype=torch.bfloat16):
        model(torch.ones(3, 4, device="hologram")).sum().backward()
    assert {p.grad.dtype for p in model.parameters()} == {torch.float32}
