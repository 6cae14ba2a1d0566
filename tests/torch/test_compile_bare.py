"""torch.compile without a backend, and activation checkpointing in what it compiles."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import hologram_torch  # noqa: E402, F401


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The graphs that hologram compiled."""
    from hologram_torch.compile import compiled

    made: list[Any] = []
    own = compiled.CompiledGraph

    def noted(graph: Any) -> Any:
        made.append(graph)
        return own(graph)

    torch.compiler.reset()
    monkeypatch.setattr(compiled, "CompiledGraph", noted)
    yield made
    torch.compiler.reset()


def network(drop: float = 0.0) -> Any:
    torch.manual_seed(0)
    layers = (nn.Linear(4, 8), nn.Dropout(drop), nn.GELU(), nn.Dropout(drop), nn.Linear(8, 2))
    return nn.Sequential(*layers).to("hologram")


def data(rows: int = 6) -> Any:
    return torch.randn(rows, 4, generator=torch.Generator().manual_seed(1)).to("hologram")


@pytest.mark.parametrize(
    "settings",
    [{}, {"fullgraph": True}, {"dynamic": True}, {"mode": "reduce-overhead"}, {"mode": "max-autotune"}],
)
def test_models_are_compiled_by_whoever_has_their_device(settings: Any, graphs: list[Any]) -> None:
    model = network()
    compiled = torch.compile(model, **settings)
    for rows in (6, 3):
        torch.testing.assert_close(compiled(data(rows)), model(data(rows)))
    assert graphs


def broken(x: Any) -> Any:
    y = x.sin()
    torch._dynamo.graph_break()
    return y + 1


@pytest.mark.parametrize("settings", [{"backend": "eager"}, {"backend": "aot_eager"}], ids=str)
def test_graphs_of_the_host_break_where_the_device_is_the_accelerator(settings: Any) -> None:
    """Between them PyTorch asks for the accelerator's stream, and our answer is not to be compiled as well."""
    script = (
        "import torch; from tests.torch.test_compile_bare import broken\n"
        f"found = torch.compile(broken, **{settings})(torch.ones(3))\n"
        "assert torch.allclose(found, broken(torch.ones(3))), found\n"
    )
    environment = {**os.environ, "HOLOGRAM_BACKEND": "cpu"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=300)


def test_a_model_is_compiled_before_it_moves(graphs: list[Any]) -> None:
    model = nn.Linear(4, 3)
    compiled = torch.compile(model)
    model.to("hologram")
    torch.testing.assert_close(compiled(data()), model(data()))
    assert torch.compile(lambda: torch.arange(3, device="hologram") * 2)().tolist() == [0, 2, 4]
    assert len(graphs) == 1  # the other takes no tensor, and runs as it is


def test_options_of_inductor_s_are_said_to_mean_nothing(graphs: list[Any]) -> None:
    model = network()
    with pytest.warns(UserWarning, match=r"options are Inductor's and mean nothing .* \['max_autotune'\]"):
        torch.compile(model, options={"max_autotune": True})(data())
    torch.compiler.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "hologram", UserWarning)
        torch.compile(model)(data())
    with pytest.raises(RuntimeError, match="Unexpected optimization option nonsense"):
        torch.compile(model, options={"nonsense": True})


def gradients(model: Any, run: Callable[[Any], Any], seed: int) -> list[Any]:
    torch.manual_seed(seed)
    model.zero_grad()
    run(data()).square().sum().backward()
    return [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("drop", [0.0, 0.5])
def test_what_is_computed_again_draws_the_same(drop: float, graphs: list[Any]) -> None:
    model = network(drop)
    compiled = torch.compile(lambda x: checkpoint(model, x, use_reentrant=False), fullgraph=True)
    found = [gradients(model, compiled, seed) for seed in (3, 4)]
    assert len(graphs) == 2  # one there and one back
    for seed, ours in zip((3, 4), found, strict=True):
        for a, b in zip(ours, gradients(model, model, seed), strict=True):
            torch.testing.assert_close(a, b)
    assert torch.equal(found[0][0], found[1][0]) is (drop == 0.0)


def test_other_devices_keep_theirs() -> None:
    from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

    torch.manual_seed(2)
    state, first = run_and_save_rng_state(torch.ops.aten.rand.default, [3], device=torch.device("cpu"))
    again = run_with_rng_state(state, torch.ops.aten.rand.default, [3], device=torch.device("cpu"))
    assert torch.equal(first, again)
    assert torch.equal(state, torch.Generator().manual_seed(2).get_state())


def test_operators_are_repeated_outside_of_graphs() -> None:
    from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

    from hologram_torch.compile import backend  # noqa: F401  (which has them take the device)

    x = torch.zeros(5, device="hologram")
    state, first = run_and_save_rng_state(torch.ops.aten.bernoulli.p, x, 0.5)
    assert state.device == x.device
    torch.rand(7, device=x.device)
    assert torch.equal(run_with_rng_state(state, torch.ops.aten.bernoulli.p, x, 0.5), first)
