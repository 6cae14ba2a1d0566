"""Gradients of PyTorch's operator database on the device, beside those of the host: in f64, of first and second order.

python -m tests.conformance.gradients [--backend cpu|webgpu] [--match TEXT] [--second] [--failures]
"""

from __future__ import annotations

import argparse
import collections
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch.utils import _pytree as pytree

from tests.conformance.database import op_db
from tests.conformance.nodes import Apart, Node, Outcome, Result, apart, line, moved

SAMPLES = 3
TOLERANCE = 1e-6


def differentiable() -> Iterator[Node]:
    """Entries with a gradient in f64."""
    for entry in op_db:
        if entry.supports_autograd and torch.float64 in entry.supported_dtypes("cpu"):
            yield Node(entry, torch.float64)


def samples(node: Node) -> list[Any]:
    """The first samples of an entry whose inputs want gradients."""
    torch.manual_seed(0)
    found = node.entry.sample_inputs("cpu", node.dtype, requires_grad=True)
    return list(itertools.islice(found, SAMPLES))


def _leaves(tree: Any) -> list[torch.Tensor]:
    return [x for x in pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def _cotangent(x: torch.Tensor, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(x.shape, dtype=x.dtype, generator=generator).to(x.device)


def gradients(node: Node, sample: Any, device: str | None, second: bool) -> list[torch.Tensor | None]:
    """The gradients of all inputs that want one, on the host; `device` is None for the host."""
    wanting = [x.requires_grad for x in _leaves((sample.input, sample.args, sample.kwargs))]
    given = pytree.tree_map(
        lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x,
        (sample.input, sample.args, sample.kwargs),
    )
    if device is not None:
        given = moved(given, device)
    inputs = [x.requires_grad_() for x, w in zip(_leaves(given), wanting, strict=True) if w]
    first, args, kwargs = given
    torch.manual_seed(0)
    found = node.entry.op(first, *args, **kwargs)
    if sample.output_process_fn_grad is not None:
        found = sample.output_process_fn_grad(found)
    results = [x for x in _leaves(found) if x.requires_grad and x.is_floating_point()]
    if not results or not inputs:
        return []
    total: Any = sum((x * _cotangent(x, k)).sum() for k, x in enumerate(results))
    grown: Any = torch.autograd.grad(total, inputs, create_graph=second, allow_unused=True)
    if second:
        again = [x for x in grown if x is not None and x.requires_grad]
        if not again:
            return []
        total = sum((x * _cotangent(x, 100 + k)).sum() for k, x in enumerate(again))
        grown = torch.autograd.grad(total, inputs, allow_unused=True)
    return [None if x is None else x.detach().cpu() for x in grown]


def run(node: Node, device: str, second: bool) -> Result | None:
    """Compares a node's gradients; None where the host has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if apart(node.entry) is not Apart.NOT or (second and not node.entry.supports_gradgrad):
                return None
            wanted = [(sample, gradients(node, sample, None, second)) for sample in samples(node)]
        except Exception:  # noqa: BLE001  (the host's own refusals)
            return None
        for sample, want in wanted:
            try:
                got = gradients(node, sample, device, second)
            except NotImplementedError as error:
                return Result(node.name, Outcome.REFUSED, line(error))
            except Exception as error:  # noqa: BLE001  (whatever it is, it is the node's result)
                return Result(node.name, Outcome.FAILED, f"{type(error).__name__}: {line(error)}")
            try:
                compare(got, want)
            except AssertionError as error:
                return Result(node.name, Outcome.WRONG, line(error))
    return Result(node.name, Outcome.PASSED)


def compare(got: list[torch.Tensor | None], want: list[torch.Tensor | None]) -> None:
    """Raises AssertionError unless gradients are the same; one that is missing is zero."""
    assert len(got) == len(want), f"{len(got)} gradients, {len(want)} were expected"
    for a, b in zip(got, want, strict=True):
        if a is None and b is None:
            continue
        like = b if a is None else a
        assert like is not None
        a, b = (torch.zeros_like(like) if x is None else x for x in (a, b))
        torch.testing.assert_close(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--match", default="")
    parser.add_argument("--second", action="store_true", help="of second order")
    parser.add_argument("--failures", action="store_true", help="list what did not pass")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th entry from the K-th on")
    arguments = parser.parse_args()

    import hologram_torch.module

    hologram_torch.module.set_backend(arguments.backend)
    console = Console(stderr=True)
    part, parts = map(int, arguments.part.split("/"))
    found = [n for n in differentiable() if n.name.startswith(arguments.match)][part::parts]
    counts: collections.Counter[Outcome] = collections.Counter()
    for node in track(found, console=console, disable=not console.is_terminal):
        result = run(node, "hologram:0", arguments.second)
        if result is None:
            continue
        counts[result.outcome] += 1
        if arguments.failures and result.outcome is not Outcome.PASSED:
            print(f"{result.outcome.value}\t{result.name}\t{result.reason}", flush=True)
    table = Table("outcome", "entries")
    for outcome in Outcome:
        table.add_row(outcome.value, str(counts[outcome]))
    table.add_row("all", str(sum(counts.values())))
    Console().print(table)


if __name__ == "__main__":
    main()
