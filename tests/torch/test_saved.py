"""Modules as saved programs: they give what PyTorch gives, on any backend, and in a process without it."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import hologram as hg  # noqa: E402
import hologram_torch  # noqa: E402
from tests.frontend.saved.pages import browsed, needs_browser, with_arguments  # noqa: E402

AXPY = """program axpy rank 1 reduced 0
buffer x : f32 read
buffer y : f32 read_write
scalar a : f32
%0 = scalar a : f32
%1 = coordinate 0 : index
%2 = load x %1 : f32
%3 = mul %0, %2 : f32
%4 = load y %1 : f32
%5 = add %3, %4 : f32
store y %1, %5
"""
axpy = hologram_torch.custom_op("hologram_saved::axpy", AXPY, outputs={"y": "y"})


class Custom(nn.Module):
    """A program of one's own between other operators."""

    def forward(self, x: Any, y: Any) -> Any:
        return axpy(x * 2.0, y, 0.5) + 1.0


class Several(nn.Module):
    """Arguments and results in trees, a buffer, and weights that two layers share."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.full((6,), 0.5))

    def forward(self, inputs: Any, *, weight: Any = 1.0, bias: Any = 0.0, mode: str = "sum") -> Any:
        y = self.second(torch.tanh(self.first(inputs["x"]))) * self.scale * weight + bias
        return {"y": y, "total": (y.sum() if mode == "sum" else y.mean(), 3)}


def convolutional() -> tuple[nn.Module, tuple[Any, ...]]:
    layers = (
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(72, 5),
    )
    return nn.Sequential(*layers), (torch.randn(4, 3, 6, 6),)


def attentive() -> tuple[nn.Module, tuple[Any, ...]]:
    return nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True), (torch.randn(2, 5, 16),)


def recurrent() -> tuple[nn.Module, tuple[Any, ...]]:
    return nn.LSTM(4, 6, batch_first=True), (torch.randn(3, 4, 4),)


def embedded() -> tuple[nn.Module, tuple[Any, ...]]:
    return nn.Sequential(nn.Embedding(11, 8), nn.LayerNorm(8), nn.Linear(8, 11)), (
        torch.randint(0, 11, (2, 7)),
    )


def custom() -> tuple[nn.Module, tuple[Any, ...]]:
    return Custom(), (torch.randn(9), torch.randn(9))


MODELS = (convolutional, attentive, recurrent, embedded, custom)


def host(x: Any) -> Any:
    return x.to_numpy() if isinstance(x, hg.Tensor) else x.detach().cpu().numpy()


@pytest.mark.filterwarnings("ignore:The tensor attributes:UserWarning")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_module(executor: hg.Executor, tmp_path: Path, model: Callable[[], Any]) -> None:
    torch.manual_seed(3)
    module, args = model()
    module.eval()
    hologram_torch.save_compiled(tmp_path / "m.holo", module, *args)
    assert all(p.device.type == "cpu" for p in module.parameters())
    device = [x.to("hologram") for x in args]
    wanted = torch.utils._pytree.tree_leaves(module.to("hologram")(*device))
    program = hg.load(tmp_path / "m.holo", device=executor)
    found = torch.utils._pytree.tree_leaves(program(*[x.numpy() for x in args]))
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(host(ours), host(theirs), rtol=1e-4, atol=1e-5)


def test_trees_names_and_several_signatures(executor: hg.Executor, tmp_path: Path) -> None:
    module = Several().eval()
    one, many = torch.randn(1, 6), torch.randn(5, 6)
    hologram_torch.save_compiled(
        tmp_path / "m.holo",
        module,
        hg.Arguments({"x": one}),
        hg.Arguments({"x": many}, weight=many, mode="mean", bias=many[:, :1]),  # in no order
    )
    program = hg.load(tmp_path / "m.holo", device=executor)
    assert len(program.weights) == 4  # the shared one once
    named = {"bias": many[:, :1], "mode": "mean", "weight": many}
    for x, settings in ((one, {}), (many, named)):
        given = {name: s.numpy() if isinstance(s, torch.Tensor) else s for name, s in settings.items()}
        found = program(inputs={"x": x.numpy()}, **given)
        wanted = module({"x": x}, **settings)
        assert list(found) == list(wanted)
        np.testing.assert_allclose(host(found["y"]), host(wanted["y"]), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(host(found["total"][0]), host(wanted["total"][0]), rtol=1e-5, atol=1e-6)
        assert found["total"][1] == 3
    with pytest.raises(hg.ShapeError, match=r"inputs\['x'\] must be f32\[1,6\], got f32\[2,6\]"):
        program({"x": one.expand(2, 6).numpy()})


class Ordered(nn.Module):
    """A dict whose keys PyTorch keeps as they were entered, and a result that is a tuple of PyTorch's own."""

    def forward(self, given: Any, *, last: Any) -> Any:
        return (given["b"] - 2.0 * given["a"][0] + last["z"] / last["c"]).topk(2)


def test_dicts_whose_keys_are_in_no_order(executor: hg.Executor, tmp_path: Path) -> None:
    one, few, some, all_ = (torch.randn(3, 4) for _ in range(4))
    given, last = {"b": one, "a": (few,)}, {"z": some, "c": all_}
    hologram_torch.save_compiled(tmp_path / "m.holo", Ordered(), hg.Arguments(given, last=last))
    program = hg.load(tmp_path / "m.holo", device=executor)
    arrays = torch.utils._pytree.tree_map(torch.Tensor.numpy, (given, last))
    values, indices = program(arrays[0], last=arrays[1])
    wanted = Ordered()(given, last=last)
    np.testing.assert_allclose(host(values), host(wanted.values), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(host(indices), host(wanted.indices))


def test_functions(tmp_path: Path) -> None:
    """A plain one, with a tensor that it closes over, and a module's method."""
    weight, layer, x = torch.randn(4, 3, device="hologram"), nn.Linear(4, 3), torch.randn(2, 4)
    bad: Any = 3

    def scaled(x: Any, *, by: float = 2.0) -> Any:
        return torch.relu(x @ weight) * by

    def drawing(x: Any) -> Any:
        return x + torch.rand_like(x)

    for function, wanted in (
        (scaled, torch.relu(x @ weight.cpu()) * 2),
        (functools.partial(scaled, by=3.0), torch.relu(x @ weight.cpu()) * 3),
        (layer.forward, layer(x)),
    ):
        hologram_torch.save_compiled(tmp_path / "f.holo", function, x)
        np.testing.assert_allclose(
            host(hg.load(tmp_path / "f.holo")(x.numpy())), host(wanted), rtol=1e-5, atol=1e-6
        )
    assert layer.weight.device.type == "cpu"
    with pytest.raises(TypeError, match="save_compiled: the model must be a module or a function, got int"):
        hologram_torch.save_compiled(tmp_path / "g.holo", bad, x)
    with pytest.raises(TypeError, match="a function must be Python's own"):
        hologram_torch.save_compiled(tmp_path / "g.holo", torch.sin, x)
    with pytest.raises(hg.TraceError, match="save_compiled: drawing draws random numbers"):
        hologram_torch.save_compiled(tmp_path / "g.holo", drawing, x)


def test_what_training_does_is_refused(tmp_path: Path) -> None:
    module, args = convolutional()
    with pytest.raises(hg.TraceError, match=r"Sequential writes to 1.running_mean, .* call model.eval\(\)"):
        hologram_torch.save_compiled(tmp_path / "m.holo", module.train(), *args)
    with pytest.raises(hg.TraceError, match=r"Sequential draws random numbers: call model.eval\(\)"):
        hologram_torch.save_compiled(
            tmp_path / "m.holo", nn.Sequential(nn.Dropout(0.5)).train(), torch.ones(3)
        )
    assert not list(tmp_path.iterdir())


SCRIPT = """
import sys
sys.modules["torch"] = None
import numpy as np
import hologram as hg
path, backend, x, y = sys.argv[1:]
with hg.Executor(backend=backend) as ex:
    np.save(y, hg.load(path, device=ex)(np.load(x)).to_numpy())
"""


def test_a_process_without_pytorch(executor: hg.Executor, tmp_path: Path) -> None:
    module, (x,) = attentive()
    module.eval()
    hologram_torch.save_compiled(tmp_path / "m.holo", module, x)
    np.save(tmp_path / "x.npy", x.numpy())
    names = (tmp_path / "m.holo", executor.backend, tmp_path / "x.npy", tmp_path / "y.npy")
    subprocess.run([sys.executable, "-c", SCRIPT, *map(str, names)], check=True, timeout=120)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), host(module(x)), rtol=1e-4, atol=1e-5)


def test_a_page_has_a_modules_named_arguments(tmp_path: Path) -> None:
    example = hg.Arguments({"x": torch.randn(2, 6)}, bias=torch.randn(6))
    hologram_torch.export_web(tmp_path / "m", Several().eval(), example)
    program = json.loads((tmp_path / "m" / "program.json").read_text())
    assert [each["name"] for each in program["inputs"]] == ["inputs.x", "bias"]
    assert [each["name"] for each in program["outputs"]] == ["total.0", "y"]


@needs_browser
def test_modules_in_a_page(tmp_path: Path) -> None:
    torch.manual_seed(3)
    site, wanted = tmp_path / "site", {}
    for model in (convolutional, attentive, embedded):
        module, args = model()
        hologram_torch.export_web(site / model.__name__, module.eval(), *args)
        with hg.Executor(backend="cpu") as ex:
            with_arguments(site / model.__name__, [ex.tensor(x.numpy()) for x in args])
        wanted[model.__name__] = host(module(*args))
    posted = browsed(site, list(wanted), tmp_path / "profile")
    for name, theirs in wanted.items():
        assert f"{name}/error" not in posted, posted[f"{name}/error"]
        found = np.frombuffer(posted[f"{name}/result"], np.float32).reshape(theirs.shape)
        np.testing.assert_allclose(found, theirs, rtol=1e-4, atol=1e-5)
