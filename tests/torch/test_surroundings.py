"""What surrounds training: saving, copying, loading data, hooks, checkpointing, parametrizations, scaled losses."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import hologram_torch  # noqa: E402, F401


def network() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)).to("hologram")


def data() -> Any:
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(1)).to("hologram")


@pytest.mark.parametrize("where", ["cpu", "hologram", "hologram:0", None])
def test_saved_tensors_are_loaded_where_one_says(where: str | None) -> None:
    file = io.BytesIO()
    x = torch.arange(6.0, device="hologram").reshape(2, 3)
    torch.save({"x": x, "row": x[1], "half": x.half(), "n": 3}, file)
    file.seek(0)
    found = torch.load(file, map_location=where)
    assert found["x"].device.type == (where or "hologram").partition(":")[0]
    assert found["x"].tolist() == x.tolist()
    assert found["half"].dtype == torch.float16
    found["x"].zero_()
    assert found["row"].tolist() == [0, 0, 0]  # it shares memory, as it did


def test_state_goes_through_a_file() -> None:
    model, other = network(), network()
    optimiser = torch.optim.AdamW(model.parameters())
    model(data()).sum().backward()
    optimiser.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict()}, file)
    file.seek(0)
    found = torch.load(file, weights_only=True)
    other.load_state_dict(found["model"])
    again = torch.optim.AdamW(other.parameters())
    again.load_state_dict(found["optimiser"])
    for here, opt in ((model, optimiser), (other, again)):
        opt.zero_grad()
        here(data()).sum().backward()
        opt.step()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_copies_and_pickles_are_equal() -> None:
    model, x = network(), data()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(x), model(x))
        assert other[0].weight is not model[0].weight
        assert other[0].weight.device.type == "hologram"


def test_batches_come_from_workers() -> None:
    rows = TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    model = nn.Linear(2, 1).to("hologram")  # the device is in use when workers begin
    seen = []
    for x, y in DataLoader(rows, batch_size=2, num_workers=1):
        model(x.to("hologram", non_blocking=True)).sum().backward()
        seen += y.to("hologram").tolist()
    assert sorted(seen) == list(range(6))


def test_batches_may_be_pinned() -> None:
    rows = TensorDataset(torch.arange(12.0).reshape(6, 2))
    batches = [x for (x,) in DataLoader(rows, batch_size=3, pin_memory=True)]
    assert torch.equal(torch.cat([b.to("hologram") for b in batches]).cpu(), rows.tensors[0])


def test_hooks_are_called() -> None:
    model, x, called = network(), data(), []
    model[0].register_forward_hook(lambda module, given, result: called.append(result.shape))
    model[0].weight.register_hook(lambda gradient: gradient * 0)
    model[2].weight.register_post_accumulate_grad_hook(lambda p: called.append(p.grad.device.type))
    model[2].register_full_backward_hook(lambda module, before, after: called.append(len(before)))
    model(x).sum().backward()
    assert called == [(6, 8), 1, "hologram"] or called == [(6, 8), "hologram", 1]
    assert not model[0].weight.grad.any()


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_compute_the_same(reentrant: bool) -> None:
    model, x = network(), data().requires_grad_()
    model.insert(2, nn.Dropout(0.5))
    found = []
    for run in (model, lambda v: checkpoint(model, v, use_reentrant=reentrant)):
        torch.manual_seed(3)
        model.zero_grad()
        run(x).sum().backward()
        found.append([p.grad.clone() for p in model.parameters()])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


def test_parametrizations_train() -> None:
    host = nn.Linear(4, 3)
    for wrap in (nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm):
        torch.manual_seed(0)
        here = wrap(copy.deepcopy(host))
        there = copy.deepcopy(here).to("hologram")
        x = data()
        here(x.cpu()).sum().backward()
        there(x).sum().backward()
        for a, b in zip(here.parameters(), there.parameters(), strict=True):
            assert b.grad is not None
            torch.testing.assert_close(b.grad.cpu(), a.grad, atol=1e-5, rtol=1e-4)


def test_losses_are_scaled() -> None:
    model, scaler = network(), torch.amp.GradScaler("hologram", init_scale=8.0)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autocast("hologram", torch.float16):
        loss = model(data()).square().mean()
    scaler.scale(loss).backward()
    before = model[0].weight.detach().clone()
    scaler.unscale_(optimiser)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimiser)
    scaler.update()
    assert not torch.equal(before, model[0].weight)
    model[0].weight.grad.fill_(float("inf"))
    scaler.scale(torch.ones((), device="hologram"))
    before = model[0].weight.detach().clone()
    scaler.step(optimiser)
    scaler.update()
    assert torch.equal(before, model[0].weight)
    assert scaler.get_scale() == 4.0


def test_the_accelerator_is_ours() -> None:
    assert torch.accelerator.current_accelerator() == torch.device("hologram")
    assert torch.accelerator.device_count() == torch.hologram.device_count()
    torch.accelerator.synchronize()


def test_operators_show_in_profiles() -> None:
    x = data()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.relu(x @ x.t())
    assert {"aten::mm", "aten::relu"} <= {e.key for e in profile.key_averages()}
