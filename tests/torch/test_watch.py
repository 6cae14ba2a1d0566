"""Positions out of range in compiled graphs: PyTorch's exceptions, though nobody waits for the device."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch")
import torch
import torch.nn.functional as functional

import hologram_torch  # noqa: F401
from hologram_torch.device.devices import devices


def _embedding(table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return functional.embedding(rows, table)


KINDS: dict[str, tuple[type[Exception], Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]] = {
    "embedding": (IndexError, _embedding),
    "gather": (RuntimeError, lambda x, i: x.gather(0, i.unsqueeze(1))),
    "index_select": (IndexError, lambda x, i: x.index_select(0, i)),
    "index": (IndexError, lambda x, i: x[i]),
    "index_put": (IndexError, lambda x, i: x.index_put((i,), torch.zeros((), device=x.device))),
    "scatter": (RuntimeError, lambda x, i: x.scatter(0, i.unsqueeze(1), 2.0)),
    "nll_loss": (IndexError, lambda x, i: functional.cross_entropy(x[:2], i)),
}


def everything(x: torch.Tensor, indices: list[torch.Tensor]) -> list[torch.Tensor]:
    """Every operator of KINDS, each at positions of its own."""
    return [call(x, i) for (_, call), i in zip(KINDS.values(), indices, strict=True)]


def test_a_graph_names_the_operator_whose_positions_are_out_of_range(backend: str) -> None:
    index = next((k for k, place in enumerate(devices.places) if place.backend == backend), None)
    if index is None:
        pytest.skip(f"no device of {backend} here")
    device = torch.device("hologram", index)
    torch.compiler.reset()
    run = torch.compile(everything, backend="hologram", fullgraph=True)
    x = torch.arange(12.0, device=device).reshape(4, 3).contiguous()
    inside = [torch.tensor([0, 2], device=device) for _ in KINDS]
    for got, want in zip(run(x, inside), everything(x, inside), strict=True):
        torch.testing.assert_close(got.cpu(), want.cpu())
    for number, (name, (kind, _)) in enumerate(KINDS.items()):
        outside = list(inside)
        outside[number] = torch.tensor([1, 4], device=device)
        with pytest.raises(kind, match=f"hologram, {name}: "):
            run(x, outside)[0].cpu()
    run(x, inside)[0].cpu()  # nothing is left of what was wrong


def test_what_was_wrong_is_raised_when_the_device_is_waited_for(backend: str) -> None:
    index = next((k for k, place in enumerate(devices.places) if place.backend == backend), None)
    if index is None:
        pytest.skip(f"no device of {backend} here")
    device = torch.device("hologram", index)
    run = torch.compile(_embedding, backend="hologram")

    def embed_and_wait() -> None:
        run(torch.ones(3, 2, device=device), torch.tensor([3], device=device))
        torch.accelerator.synchronize(device)

    with pytest.raises(IndexError, match="hologram, embedding"):
        embed_and_wait()
    torch.accelerator.synchronize(device)
