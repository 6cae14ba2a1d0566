"""Modules that move keep their parameters: tied ones stay tied, and optimisers go on with them."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import hologram_torch  # noqa: E402, F401


def tied() -> nn.ModuleList:
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.weight = first.weight
    return nn.ModuleList([first, second])


def test_tied_weights_stay_tied() -> None:
    model = tied().to("hologram")
    assert model[0].weight is model[1].weight
    assert model[0].weight.device.type == "hologram"
    assert len(list(model.parameters())) == 3
    model.cpu()
    assert model[0].weight is model[1].weight
    assert model[0].weight.device.type == "cpu"


def test_optimisers_made_before_go_on() -> None:
    model = nn.Linear(2, 1, bias=False)
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    weight, before = model.weight, model.weight.detach().clone()
    model.to("hologram")
    assert model.weight is weight
    assert isinstance(weight, nn.Parameter)
    model(torch.ones(1, 2, device="hologram")).sum().backward()
    optimiser.step()
    torch.testing.assert_close(model.weight.detach().cpu(), before - 1)


def test_parameters_that_others_refer_to_are_replaced_everywhere() -> None:
    model = tied()
    compiled = torch.compile(lambda x: model[1](model[0](x)), backend="hologram")
    compiled(torch.ones(1, 3))
    model.to("hologram")
    assert model[0].weight is model[1].weight
    assert compiled(torch.ones(1, 3, device="hologram")).device.type == "hologram"


def test_gradients_move_along() -> None:
    model = tied()
    model[0](torch.ones(1, 3)).sum().backward()
    model.to("hologram").half()
    grad = model[0].weight.grad
    assert grad is not None
    assert (grad.device.type, grad.dtype) == ("hologram", torch.float16)


def test_lazy_modules_take_their_shapes_where_they_are() -> None:
    model = nn.Sequential(nn.LazyConv2d(3, 2), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(4))
    model.to("hologram")
    found = model(torch.ones(2, 2, 4, 4, device="hologram"))
    assert found.shape == (2, 4)
    assert {p.device.type for p in model.parameters()} == {"hologram"}
    assert {type(p) for p in model.parameters()} == {nn.Parameter}
