"""Whole trainings: a network that learns digits, and a language model whose loss follows stock PyTorch's."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401
from hologram.benchmark.programs.networks import Size, Transformer  # noqa: E402

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
STEPS = 200
CHARACTERS = Size(layers=2, heads=2, width=32, vocabulary=128, batch=8, tokens=32)


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_digits_are_learnt() -> None:
    pytest.importorskip("sklearn")
    assert example("torch_digits").train(epochs=5) >= 0.97


def text() -> Any:
    """The Zen of Python, by character, which the module `this` has in rot13."""
    source = pathlib.Path(importlib.util.find_spec("this").origin).read_text()  # type: ignore[union-attr,arg-type]
    return torch.tensor([min(ord(c), 127) for c in source])


def losses(device: str) -> list[float]:
    torch.manual_seed(0)
    model, characters = Transformer(CHARACTERS), text()
    model.to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    chosen = torch.Generator().manual_seed(1)
    found = []
    for _ in range(STEPS):
        starts = torch.randint(len(characters) - CHARACTERS.tokens - 1, (CHARACTERS.batch,), generator=chosen)
        rows = torch.stack([characters[k : k + CHARACTERS.tokens + 1] for k in starts.tolist()]).to(device)
        optimiser.zero_grad()
        loss = model(rows[:, :-1], rows[:, 1:])
        loss.backward()
        optimiser.step()
        found.append(loss.detach())
    return torch.stack(found).cpu().tolist()


@pytest.mark.slow
def test_a_language_model_follows_stock_pytorch() -> None:
    ours, theirs = losses("hologram"), losses("cpu")
    assert ours[-1] < ours[0] / 2
    assert max(abs(a - b) / b for a, b in zip(ours, theirs, strict=True)) < 0.01
