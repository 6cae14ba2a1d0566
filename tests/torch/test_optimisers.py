"""Every optimiser of PyTorch's does on the device what it does on the host, in all its forms."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401
from hologram_torch.kernels.lists import apart  # noqa: E402
from hologram_torch.tensors.memory import payload  # noqa: E402

OPTIMISERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "amsgrad": True}),
    ("AdamW", {"lr": 0.1}),
    ("Adamax", {}),
    ("NAdam", {}),
    ("RAdam", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
    ("Rprop", {}),
    ("Adagrad", {"lr_decay": 0.1}),
    ("Adadelta", {}),
    ("ASGD", {}),
    ("Adafactor", {}),
)
FORMS = ({"foreach": False}, {"foreach": True}, {"fused": True})
FUSED = ("SGD", "Adam", "AdamW", "Adagrad")
SINGLY = ("SGD", "Adam")  # in the form that steps a parameter at a time, of which all are made alike


def _model() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


def _trained(device: str, name: str, settings: dict[str, Any], steps: int = 3) -> list[Any]:
    model = _model().to(device)
    x, y = (torch.linspace(-1, 1, 10 * n).reshape(10, n).to(device) for n in (6, 3))
    optimiser = getattr(torch.optim, name)(model.parameters(), **settings)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.9)
    for _ in range(steps):
        optimiser.zero_grad()
        (model(x) - y).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return [p.detach().cpu() for p in model.parameters()]


CASES = [
    (name, settings | form)
    for name, settings in OPTIMISERS
    for form in FORMS
    if ("fused" not in form or name in FUSED) and (form != FORMS[0] or name in SINGLY)
]


@pytest.mark.parametrize(("name", "settings"), CASES, ids=lambda x: x if isinstance(x, str) else "")
def test_parameters_are_those_of_the_host(name: str, settings: dict[str, Any]) -> None:
    wanted = _trained("cpu", name, settings)
    for ours, theirs in zip(_trained("hologram", name, settings), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_lbfgs() -> None:
    found = []
    for device in ("cpu", "hologram"):
        model = _model().to(device)
        x = torch.linspace(-1, 1, 60).reshape(10, 6).to(device)
        optimiser = torch.optim.LBFGS(model.parameters(), max_iter=4)

        def closure(model: Any = model, x: Any = x, optimiser: Any = optimiser) -> Any:
            optimiser.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        optimiser.step(closure)
        found.append([p.detach().cpu() for p in model.parameters()])
    for ours, theirs in zip(*reversed(found), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_new_learning_rate_compiles_nothing() -> None:
    _trained("hologram", "AdamW", {"lr": 0.1, "fused": True}, steps=2)
    before = torch.hologram.executor().preparation_stats()["traced"]
    _trained("hologram", "AdamW", {"lr": 0.03, "fused": True}, steps=3)
    assert torch.hologram.executor().preparation_stats()["traced"] == before


def test_steps_over_known_memory() -> None:
    """Steps that a repeated call does not take the general way for follow rates, decay and gradients all the same."""

    def trained(device: str, **form: Any) -> list[Any]:
        torch.manual_seed(0)
        parameters = [torch.nn.Parameter(torch.randn(5).to(device)) for _ in range(3)]
        optimiser = torch.optim.AdamW(parameters, lr=0.1, **form)
        flat = torch.zeros(15, device=device)
        for step in range(9):
            values = torch.randn(15)
            for k, x in enumerate(parameters):
                own = values[5 * k : 5 * k + 5].to(device)
                # At first memory of their own, then parts of one, which sizes and strides do not tell apart.
                x.grad = own if step < 5 else flat[5 * k : 5 * k + 5].copy_(own)
            optimiser.param_groups[0].update(lr=0.1 / (1 + step), weight_decay=0.0 if step == 3 else 0.1)
            optimiser.step()
        return [x.detach().cpu() for x in parameters]

    wanted = trained("cpu", foreach=False)
    for form in ({}, {"foreach": True}, {"fused": True}):
        for x, y in zip(trained("hologram", **form), wanted, strict=True):
            torch.testing.assert_close(x, y)


@pytest.mark.parametrize(("name", "settings"), [case for case in CASES if case[0] in FUSED], ids=str)
def test_many_steps_over_the_same_memory(name: str, settings: dict[str, Any]) -> None:
    """Nothing but one parameter: its state has its shape, and may not change places with it."""

    def trained(device: str) -> Any:
        x = torch.nn.Parameter(torch.linspace(-2, 2, 7).to(device))
        x.grad = torch.zeros_like(x)
        optimiser = getattr(torch.optim, name)([x], **settings)
        for step in range(12):
            x.grad.copy_(torch.sin(torch.arange(7.0) + step))
            optimiser.step()
            x[0].item()  # a look at a part of it
        return x.detach().cpu()

    torch.testing.assert_close(trained("hologram"), trained("cpu"))


@pytest.mark.parametrize("form", [{"foreach": True}, {"fused": True}], ids=str)
def test_parameters_that_others_see_are_written_where_they_lie(form: dict[str, Any]) -> None:
    x = torch.nn.Parameter(torch.linspace(-2, 2, 7).to("hologram"))
    seen = payload(x).to_numpy(copy=False) if torch.hologram.executor().limits.host_resident else None
    x.grad = torch.ones_like(x)
    optimiser = torch.optim.AdamW([x], **form)
    optimiser.step()
    with torch.hologram.executor().profile() as profile:
        optimiser.step()
    assert len(profile.launches) <= 2  # else it copies
    if seen is not None:
        assert seen.tolist() == x.tolist()


def test_a_step_is_few_launches() -> None:
    parameters = [torch.nn.Parameter(torch.ones(4 + k % 3, device="hologram")) for k in range(30)]
    optimiser = torch.optim.AdamW(parameters)
    for x in parameters:
        x.grad = torch.ones_like(x)
    optimiser.step()
    with torch.hologram.executor().profile() as profile:
        optimiser.step()
    assert len(profile.launches) <= 6


def test_a_step_writes_where_parameters_lie() -> None:
    model = _model().to("hologram")
    before = [payload(p) for p in model.parameters()]
    tied = model[0].weight.detach()
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)
    model(torch.ones(2, 6, device="hologram")).sum().backward()
    optimiser.step()
    assert all(a is payload(p) for a, p in zip(before, model.parameters(), strict=True))
    assert torch.equal(tied.cpu(), model[0].weight.detach().cpu())


def test_lists_that_share_memory() -> None:
    x = torch.arange(6.0, device="hologram")
    torch._foreach_mul_([x[:3], x[3:]], 2.0)
    torch._foreach_add_([x, x], 1.0)
    assert x.cpu().tolist() == [2 * k + 2.0 for k in range(6)]


def test_state_goes_on_after_loading() -> None:
    model = _model().to("hologram")
    optimiser = torch.optim.Adam(model.parameters(), fused=True)
    model(torch.ones(2, 6, device="hologram")).sum().backward()
    optimiser.step()
    other = torch.optim.Adam(copy.deepcopy(model).parameters(), fused=True)
    other.load_state_dict(optimiser.state_dict())
    for a, b in zip(optimiser.state.values(), other.state.values(), strict=True):
        assert torch.equal(a["exp_avg"].cpu(), b["exp_avg"].cpu())
        assert a["step"].device.type == b["step"].device.type == "hologram"


@pytest.mark.parametrize("form", [{}, {"foreach": True}, {"fused": True}], ids=str)
@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_autograd_notices_steps(name: str, form: dict[str, Any]) -> None:
    """What a graph saved is no more: a wrong gradient without a word would be the alternative."""
    x = torch.ones(2, device="hologram", requires_grad=True)
    optimiser = getattr(torch.optim, name)([x], lr=0.1, **form)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    for _ in range(2):  # the second may be a known call
        version = x._version
        optimiser.step()
        assert x._version > version
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(y, x)


def test_lists_whose_places_read_one_another() -> None:
    def added(device: str) -> list[Any]:
        a, b = torch.ones(2, device=device), torch.ones(2, device=device)
        torch._foreach_add_([a, b], [b, a])
        torch._foreach_addcmul_([a, b], [b, a], [b, a])
        c = torch.arange(6.0, device=device)
        torch._foreach_mul_([c[:3], c[3:]], [c[3:], c[:3]])
        return [a.tolist(), b.tolist(), c.tolist()]

    assert added("hologram") == added("cpu")


@pytest.mark.parametrize("form", [{}, {"fused": True}], ids=str)
def test_parameters_that_share_memory_are_stepped_in_turn(form: dict[str, Any]) -> None:
    def stepped(device: str) -> Any:
        whole = torch.ones(4, device=device)
        parts = [whole[:3].detach().requires_grad_(), whole[1:].detach().requires_grad_()]
        optimiser = torch.optim.AdamW(parts, lr=0.1, weight_decay=0.5, **form)
        for _ in range(3):
            for x, value in zip(parts, (1.0, -5.0), strict=True):
                x.grad = torch.full((3,), value, device=device)
            optimiser.step()
        return whole.cpu()

    torch.testing.assert_close(stepped("hologram"), stepped("cpu"))


def test_parameters_apart_in_one_memory_are_stepped_together() -> None:
    whole = torch.ones(12, device="hologram")
    parts = [whole[3 * k : 3 * k + 3].detach().requires_grad_() for k in range(4)]
    for x in parts:
        x.grad = torch.ones_like(x)
    assert apart([parts], [[x.grad for x in parts]])
    assert not apart([[whole[:3], whole[2:5]]], [])
    assert not apart([[parts[0], parts[1]]], [[parts[1], parts[0]]])
    assert apart([[parts[0], parts[1]]], [[parts[0], parts[1]]])  # each reads itself alone


def test_a_freed_storage_says_so() -> None:
    x = torch.ones(10, device="hologram", requires_grad=True)
    x.grad = torch.ones_like(x)
    optimiser = torch.optim.SGD([x], 0.1, fused=True)
    optimiser.step()
    optimiser.step()
    x.untyped_storage().resize_(0)
    for use in (optimiser.step, lambda: x + 1, x.tolist):
        with pytest.raises(RuntimeError, match="hologram: the tensor's storage was freed"):
            use()
