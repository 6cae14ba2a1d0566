"""PyTorch on the device beside PyTorch on the CPU: a training step, its optimiser, GPT-2's size, eager calls.

    python -m bench.torch_training              all of it, and what a training step needs of memory
    python -m bench.torch_training --only step  the training step
    python -m bench.torch_training --only peer --backend webgpu   beside tinygrad on the same adapter

Times are of one process, in turns; figures are medians and minima. Memory is what a fresh process has at the peak of
warm steps beyond what it had with the model alone (Linux). Data and weights are random.
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import hologram_torch  # noqa: F401  (it makes the device)
from hologram.benchmark.timing import busy


@dataclass(frozen=True)
class Size:
    """A language model's: layers of so many heads, numbers per token, tokens it knows, batches of so many tokens."""

    layers: int
    heads: int
    width: int
    vocabulary: int
    batch: int
    tokens: int


STEP = Size(layers=4, heads=8, width=256, vocabulary=256, batch=8, tokens=128)
GPT2 = Size(layers=12, heads=12, width=768, vocabulary=50257, batch=1, tokens=128)


class Block(nn.Module):
    """Attention and a layer of neurons, each added to what it reads."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.width
        self.heads = size.heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        three = self.attend(self.before(x)).split(width, dim=2)
        q, k, v = (each.view(batch, tokens, self.heads, -1).transpose(1, 2) for each in three)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.narrow(functional.gelu(self.widen(self.between(x)), approximate="tanh"))


class Transformer(nn.Module):
    """A language model as GPT-2 is one: it gives logits, or the loss where targets are given."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.token = nn.Embedding(size.vocabulary, size.width)
        self.place = nn.Embedding(size.tokens, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.last = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.last(x))
        if targets is None:
            return logits
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def made(size: Size) -> tuple[Transformer, torch.Tensor]:
    """A model on the CPU, and tokens for it."""
    torch.manual_seed(0)
    model = Transformer(size)
    return model, torch.randint(size.vocabulary, (size.batch, size.tokens))


def step_on(device: str, backend: str | None) -> Callable[[], float]:
    """A training step: forward, backward, AdamW; it gives the loss."""
    model, tokens = made(STEP)
    targets = torch.randint(STEP.vocabulary, tokens.shape, generator=torch.Generator().manual_seed(1)).to(
        device
    )
    model, tokens = copy.deepcopy(model).to(device), tokens.to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run = torch.compile(model, backend=backend) if backend else model

    def step() -> float:
        optimiser.zero_grad()
        loss = run(tokens, targets)
        loss.backward()
        optimiser.step()
        return loss.item()

    return step


def step_in_tinygrad(device: str, backend: str | None) -> Callable[[], float]:
    """The same step as `step_on` takes, in tinygrad; ImportError where that is not installed."""
    from bench.contenders import tinygrad_transformer

    model, tokens = made(STEP)
    targets = torch.randint(STEP.vocabulary, tokens.shape, generator=torch.Generator().manual_seed(1))
    arrays = {name: x.detach().numpy() for name, x in model.state_dict().items()}
    return tinygrad_transformer.step(arrays, STEP.layers, STEP.heads, tokens.numpy(), targets.numpy())


def peer_on(device: str, backend: str | None) -> Callable[[], float]:
    """A training step by who is named by the device."""
    return step_in_tinygrad(device, backend) if device == "tinygrad" else step_on(device, backend)


def inference_on(device: str, backend: str | None) -> Callable[[], float]:
    """Logits of a batch; it gives one of them."""
    model, tokens = made(GPT2)
    model, tokens = model.eval().to(device), tokens.to(device)
    run = torch.compile(model, backend=backend) if backend else model

    @torch.no_grad()
    def infer() -> float:
        return run(tokens)[0, -1, 0].item()

    return infer


def optimiser_on(device: str, form: str | None) -> Callable[[], float]:
    """A step of AdamW over the model's parameters, whose gradients are there; `form` asks for one of its forms."""
    model = copy.deepcopy(made(STEP)[0]).to(device)
    for x in model.parameters():
        x.grad = torch.ones_like(x)
    forms: dict[str, Any] = {} if form is None else {form: True}
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, **forms)
    last = next(model.parameters())

    def step() -> float:
        optimiser.step()
        return last[0, 0].item()

    return step


CALLS = 1000  # eager calls that are timed together: milliseconds are microseconds of one


def eager_on(device: str, call: str | None) -> Callable[[], float]:
    """CALLS eager calls on 1,024 elements; it gives their number."""
    x, y = torch.ones(1024, device=device), torch.ones(1024, device=device)
    m = x.view(32, 32)
    calls: dict[str | None, Callable[[], Any]] = {
        "add": lambda: x + y,
        "exp": lambda: x.exp(),
        "view": lambda: x.view(32, 32),
        "row": lambda: m[3],
        "transpose": lambda: m.t(),
    }
    chosen = calls[call]

    def run() -> float:
        for _ in range(CALLS):
            chosen()
        return float(CALLS)

    return run


@dataclass(frozen=True)
class Contender:
    """Who computes."""

    name: str
    device: str
    backend: str | None


CONTENDERS = (
    Contender("torch eager", "cpu", None),
    Contender("torch inductor", "cpu", "inductor"),
    Contender("hologram eager", "hologram", None),
    Contender("hologram compiled", "hologram", "hologram"),
)
OPTIMISERS = (
    Contender("torch default", "cpu", None),
    Contender("torch fused", "cpu", "fused"),
    Contender("hologram default", "hologram", None),
    Contender("hologram fused", "hologram", "fused"),
)
EAGER = tuple(
    Contender(f"{who}, {call}", device, call)
    for call in ("add", "exp", "view", "row", "transpose")
    for who, device in (("torch", "cpu"), ("hologram", "hologram"))
)
PEERS = (Contender("tinygrad", "tinygrad", None), CONTENDERS[-1])  # on WebGPU
WORK: dict[str, tuple[Callable[[str, str | None], Callable[[], float]], tuple[Contender, ...]]] = {
    "step": (step_on, CONTENDERS),
    "optimiser": (optimiser_on, OPTIMISERS),
    "gpt2": (inference_on, CONTENDERS),
    "eager": (eager_on, EAGER),
    "peer": (peer_on, PEERS),
}
GPU_ONLY = ("peer",)  # work that is nothing on a CPU


def resident(field: str) -> float:
    """Megabytes of this process: VmRSS now, or VmHWM, the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def _grown(pipe: Connection, contender: Contender, backend: str) -> None:
    torch.hologram.set_backend(backend)  # pyright: ignore[reportAttributeAccessIssue]
    step = step_on(contender.device, contender.backend)
    before = resident("VmRSS")
    for _ in range(3):
        step()
    Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
    for _ in range(3):
        step()
    pipe.send(round(resident("VmHWM") - before, 1))


def memory(contenders: Sequence[Contender], backend: str) -> dict[str, float]:
    """Megabytes by which a training step's peak is above what its process had with the model alone."""
    found = {}
    context = multiprocessing.get_context("spawn")
    for contender in contenders:
        ours, theirs = context.Pipe()
        process = context.Process(target=_grown, args=(theirs, contender, backend))
        process.start()
        theirs.close()
        found[contender.name] = ours.recv()
        process.join()
    return found


def measured(calls: dict[str, Callable[[], float]], turns: int, samples: int) -> dict[str, dict[str, Any]]:
    """Medians in milliseconds, of samples taken in turns, and what the last call gave."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    found = {name: call() for name, call in calls.items()}
    for _ in range(turns):
        for name, call in calls.items():
            call()
            for _ in range(samples):
                start = time.perf_counter()
                found[name] = call()
                times[name].append(time.perf_counter() - start)
    return {
        name: {
            "milliseconds": round(median(times[name]) * 1e3, 3),
            "least": round(min(times[name]) * 1e3, 3),
            "gave": found[name],
        }
        for name in calls
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints; as JSON, one line for each piece of work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[*WORK, "memory"])
    parser.add_argument("--who", nargs="*", help="words in the names of those who take part")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--samples", type=int, default=5)
    given = parser.parse_args(arguments)
    torch.hologram.set_backend(given.backend)  # pyright: ignore[reportAttributeAccessIssue]
    warning = busy(torch.get_num_threads())
    if warning:
        print(warning)

    def chosen(contenders: Sequence[Contender]) -> list[Contender]:
        return [c for c in contenders if given.who is None or any(word in c.name for word in given.who)]

    for name, (work, contenders) in WORK.items():
        if given.only == name or (given.only is None and (name not in GPU_ONLY or given.backend != "cpu")):
            calls = {c.name: work(c.device, c.backend) for c in chosen(contenders)}
            found = measured(calls, given.turns, given.samples)
            print(json.dumps({"work": name, "threads": torch.get_num_threads(), "found": found}), flush=True)
    if given.only in (None, "memory") and Path("/proc/self/clear_refs").exists():
        print(json.dumps({"work": "memory", "megabytes": memory(chosen(CONTENDERS), given.backend)}))


if __name__ == "__main__":
    main()
