"""Modules that move keep their parameters: tied ones stay tied, and optimisers go on with them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

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


def test_data_moves_between_the_host_and_the_device() -> None:
    """The object stays, so who holds it sees it there: optimisers, modules that share it, what is written to it."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2)
    tied = torch.nn.Linear(3, 2)
    tied.weight = layer.weight
    steps = torch.optim.SGD(layer.parameters(), lr=0.5)
    weight, x = layer.weight, torch.ones(4, 3)
    want = weight.detach() - 0.5 * torch.full((2, 3), 4.0)
    weight.tag = "mine"
    for p in layer.parameters():
        p.grad = torch.zeros_like(p)
        p.data = p.data.to("hologram")
        assert type(p) is torch.nn.Parameter
        assert p.requires_grad
        assert p.grad.device == p.device
        assert p.is_leaf
    assert layer.weight is weight is tied.weight
    assert weight.tag == "mine"
    layer(x.to("hologram")).sum().backward()
    steps.step()
    torch.testing.assert_close(weight.detach().cpu(), want)
    weight.data = weight.data.cpu()
    assert weight.device.type == "cpu"
    torch.testing.assert_close(tied.weight.detach(), want)


def test_data_of_plain_tensors() -> None:
    x = torch.arange(3.0)
    x.data = torch.ones(2, device="hologram")
    assert x.tolist() == [1, 1]
    assert not x.requires_grad
    x.data = torch.zeros(3, device="hologram")  # as everywhere on one device
    assert x.tolist() == [0, 0, 0]
    with pytest.raises(TypeError):
        x.data = 3
    with pytest.raises(RuntimeError, match="not allowed"):
        del x.data


def test_data_in_compiled_functions() -> None:
    torch.compiler.reset()
    found = torch.compile(lambda x: x.data * 2, backend="hologram")(torch.ones(2, device="hologram"))
    assert found.tolist() == [2, 2]


class Scripted(torch.nn.Module):
    """Parameters of which one is shared, a buffer, and a list of weights that only TorchScript sees."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.tied = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        self.tied.weight = self.first.weight
        self.tied.bias.requires_grad_(False)
        self.recurrent = torch.nn.LSTM(3, 4)
        self.register_buffer("shift", torch.arange(3.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # pyright: ignore[reportInvalidTypeForm]
        return self.recurrent(self.tied(self.first(x) + self.shift))[0]


def _loaded(module: Any, **how: Any) -> Any:
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    return torch.jit.load(file, **how)


WAYS: dict[str, Callable[[Any], Any]] = {
    "loaded": lambda m: _loaded(m).to("hologram"),
    "loaded there": lambda m: _loaded(m, map_location="hologram"),
    "by the device's name": lambda m: _loaded(m).hologram(),
    "as it was made": lambda m: m.to("hologram"),
    "within another": lambda m: torch.nn.Sequential(_loaded(m), torch.nn.Identity()).to("hologram")[0],
    "there and back and there": lambda m: _loaded(m).to("hologram").to("cpu").to("hologram"),
    "saved from there": lambda m: _loaded(_loaded(m).to("hologram")),
    "frozen there": lambda m: torch.jit.freeze(_loaded(m).eval().to("hologram")),
}


@pytest.mark.parametrize("way", WAYS)
def test_modules_of_torchscript_move(way: str) -> None:
    torch.manual_seed(0)
    module: Any = torch.jit.script(Scripted())
    x = torch.randn(5, 3)
    want, state = module(x), {name: t.clone() for name, t in module.state_dict().items()}
    moved = WAYS[way](module)
    found = moved(x.to("hologram"))
    assert found.device.type == "hologram"
    torch.testing.assert_close(found.cpu(), want)
    assert {t.device.type for t in (*moved.parameters(), *moved.buffers())} <= {"hologram"}
    if way == "frozen there":
        return
    assert moved.first.weight is moved.tied.weight
    assert [p.requires_grad for p in moved.tied.parameters()] == [True, False]
    torch.testing.assert_close(_loaded(moved, map_location="cpu")(x), want)
    found.sum().backward()
    want.sum().backward()
    if way != "as it was made":
        torch.testing.assert_close(moved.first.weight.grad.cpu(), module.first.weight.grad)
    torch.optim.SGD(moved.parameters(), 0.1).step()
    moved.load_state_dict(state)
    half = moved.to(torch.bfloat16)(x.to("hologram", torch.bfloat16))
    torch.testing.assert_close(half.cpu().float(), want, rtol=0.05, atol=0.05)
