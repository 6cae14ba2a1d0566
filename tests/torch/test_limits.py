"""Bad input and too little memory: PyTorch's exceptions, naming hologram, and a process that goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402, N812
from torch.utils.data import DataLoader  # noqa: E402

import hologram_torch  # noqa: E402, F401


def positions(*numbers: int) -> Any:
    return torch.tensor(numbers)


def changed_after_saved(x: Any) -> None:
    leaf = x.clone().requires_grad_()
    found = leaf.exp()
    found.mul_(2)
    found.sum().backward()


Make = Callable[[Any], Any]
BAD: dict[str, Callable[[Make, Any], Any]] = {
    "unlike dtypes": lambda to, x: x @ to(torch.ones(4, 4, dtype=torch.int64)),
    "shapes that do not multiply": lambda to, x: x @ to(torch.ones(5, 4)),
    "shapes that do not broadcast": lambda to, x: x + to(torch.ones(3)),
    "a view of another size": lambda to, x: x.view(5),
    "index_select": lambda to, x: x.index_select(0, to(positions(9))),
    "indexing": lambda to, x: x[to(positions(9))],
    "gather": lambda to, x: x.gather(0, to(positions(9)[None])),
    "scatter": lambda to, x: x.scatter(0, to(positions(9)[None]), 1.0),
    "index_add": lambda to, x: x.index_add(0, to(positions(9)), to(torch.ones(1, 4))),
    "embedding": lambda to, x: F.embedding(to(positions(-1)), x),
    "cross_entropy": lambda to, x: F.cross_entropy(x, to(positions(9, 0, 0, 0))),
    "nll_loss": lambda to, x: F.nll_loss(x, to(positions(-5, 0, 0, 0))),
    "index_add of a middle axis": lambda to, x: x.view(2, 2, 4).index_add(
        1, to(positions(9)), to(torch.ones(2, 1, 4))
    ),
    "probabilities": lambda to, x: F.binary_cross_entropy(x * 2, x),
    "probabilities that are no numbers": lambda to, x: F.binary_cross_entropy(x * torch.nan, x),
    "multi_margin_loss": lambda to, x: F.multi_margin_loss(x, to(positions(9, 0, 0, 0))),
    "multilabel_margin_loss": lambda to, x: F.multilabel_margin_loss(x, x.long() * 9),
    "one_hot": lambda to, x: F.one_hot(to(positions(5)), 3),
    "an axis that is not there": lambda to, x: x.sum(7),
    "a change of what was saved": lambda to, x: changed_after_saved(x),
    "no gradient": lambda to, x: x.sum().backward(),
    "a number of many": lambda to, x: x.item(),
    "too large": lambda to, x: x.new_empty(1 << 60),
}
SPOKEN_BY_PYTORCH = {
    "a view of another size",
    "a change of what was saved",
    "no gradient",
    "a number of many",
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input(what: str) -> None:
    with pytest.raises(Exception) as host:
        BAD[what](lambda x: x, torch.ones(4, 4))
    x = torch.ones(4, 4, device="hologram")
    words = None if what in SPOKEN_BY_PYTORCH else "hologram"
    with pytest.raises(host.type, match=words):
        BAD[what](lambda x: x.to("hologram"), x)
    assert (x + 1).sum().item() == 32


def test_compiled_losses_refuse_what_eager_ones_do() -> None:
    loss = torch.compile(F.binary_cross_entropy, backend="hologram")
    x = torch.ones(4, device="hologram")
    assert loss(x, x).item() == 0
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        loss(x * 2, x).item()


HOOKS: dict[str, Callable[[Any, Any], Any]] = {
    "of a gradient": lambda p, hook: p.register_hook(hook),
    "of what was added up": lambda p, hook: p.register_post_accumulate_grad_hook(hook),
}


@pytest.mark.parametrize("kind", HOOKS)
def test_exceptions_leave_backward_passes(kind: str) -> None:
    def hook(*_: Any) -> None:
        raise LookupError("mine")

    layers = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)).to("hologram")
    kept = HOOKS[kind](layers[0].weight, hook)
    with pytest.raises(LookupError, match="mine"):
        layers(torch.ones(2, 3, device="hologram")).sum().backward()
    kept.remove()
    layers(torch.ones(2, 3, device="hologram")).sum().backward()
    assert layers[0].weight.grad is not None


def test_mixed_and_missing_devices() -> None:
    x = torch.ones(4, 4, device="hologram")
    for wrong in (
        lambda: x + torch.ones(4),
        lambda: torch.ones(2).to("hologram:77"),
        lambda: x.to("hologram:77"),
    ):
        with pytest.raises(RuntimeError, match="hologram"):
            wrong()
    assert x.sum().item() == 16


def test_tensors_outlive_the_cache() -> None:
    x = torch.ones(1000, device="hologram") * 2
    view = x[500:]
    del x
    torch.hologram.empty_cache()
    other = torch.full((1000,), 7.0, device="hologram")
    assert view.sum().item() == 1000
    assert (view + other[:500]).sum().item() == 4500


@pytest.mark.skipif(sys.platform != "linux", reason="limits a process as Linux does")
@pytest.mark.parametrize(("compiled", "fused"), [(False, False), (True, True)])
def test_a_step_runs_out_of_memory_and_the_process_goes_on(compiled: bool, fused: bool) -> None:
    command = [sys.executable, str(Path(__file__).with_name("little_memory.py")), str(compiled), str(fused)]
    # Room that threads had while they compiled is within no limit that comes after. It computes for longer than it
    # compiles.
    environment = os.environ | {"MALLOC_ARENA_MAX": "1", "HOLOGRAM_CPU_OPTIMISE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["forward", "backward", "forward"]


class Rows(torch.utils.data.Dataset):
    """What workers compute."""

    def __init__(self, row: Callable[[int], Any]) -> None:
        self.row = row

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        return self.row(index)


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="nothing forks here")
def test_forked_workers_are_told() -> None:
    x = torch.ones(3, device="hologram")
    rows: tuple[Callable[[int], Any], ...] = (
        lambda i: torch.ones(2, device="hologram"),
        lambda i: torch.ones(2).to("hologram"),
        lambda i: x + i,
        lambda i: x[i],
        lambda i: x.tolist(),
    )
    for row in rows:
        batches = DataLoader(Rows(row), num_workers=1, multiprocessing_context="fork", timeout=60)
        with pytest.raises(RuntimeError, match="fork"):
            list(batches)
    assert x.sum().item() == 3
    spawned = DataLoader(Rows(float), num_workers=1, multiprocessing_context="fork", timeout=60)
    assert len(list(spawned)) == 2
