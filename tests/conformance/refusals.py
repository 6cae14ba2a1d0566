"""Arguments that PyTorch refuses, and whether the device does so with the same type of exception.

python -m tests.conformance.refusals [--backend cpu|webgpu] [--match TEXT] [--failures]

They are the database's own error inputs, operands of dtypes that the CPU does not take (floats of 16 bits apart, which
it may come to take), and outputs of dtypes that results cannot be written to. What the host lets pass is left out, and
so are complex numbers.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch.utils import _pytree as pytree

from tests.conformance.database import op_db
from tests.conformance.nodes import DTYPES, Apart, Node, apart, line, moved, samples

SAMPLES = 2  # of each dtype that is refused, and for each output


class Verdict(Enum):
    """What the device did with arguments that the host refuses."""

    REFUSED = "refused"
    OTHERWISE = "otherwise"  # with an exception of another type
    ACCEPTED = "accepted"


@dataclass(frozen=True)
class Malformed:
    """Arguments that the host may refuse; `outputs` are dtypes of outputs to be made of what is computed without."""

    name: str
    entry: Any
    arguments: Any  # the first, the others, those by keyword
    outputs: torch.dtype | None = None

    def call(self, device: str | None) -> Any:
        """Runs the operator on copies, on the host where `device` is None."""
        given = pytree.tree_map(
            lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x, self.arguments
        )
        first, args, kwargs = given if device is None else moved(given, device)
        if self.outputs is None:
            return self.entry.op(first, *args, **kwargs)
        like = self.entry.op(first, *args, **kwargs)
        out = pytree.tree_map(lambda x: torch.empty_like(x, dtype=self.outputs), like)
        return self.entry.op(first, *args, **kwargs, out=out)


def malformed(entry: Any) -> Iterator[Malformed]:
    """Everything that an entry may refuse."""
    yield from _of_the_database(entry)
    taken = [dtype for dtype in DTYPES if dtype in entry.supported_dtypes("cpu")]
    try:
        if not taken or apart(entry) is not Apart.NOT:
            return
        found = samples(Node(entry, taken[0]))[:SAMPLES]
    except Exception:  # noqa: BLE001  (entries that the host itself cannot run)
        return
    yield from _of_other_dtypes(entry, taken[0], found)
    yield from _with_outputs(entry, found)


def _arguments(sample: Any) -> Any:
    return (sample.input, sample.args, sample.kwargs)


def _of_the_database(entry: Any) -> Iterator[Malformed]:
    if entry.error_inputs_func is not None:
        for number, error in enumerate(entry.error_inputs("cpu")):
            yield Malformed(f"{entry.formatted_name} input {number}", entry, _arguments(error.sample_input))


def _of_other_dtypes(entry: Any, own: torch.dtype, found: list[Any]) -> Iterator[Malformed]:
    taken = entry.supported_dtypes("cpu")
    for dtype in (d for d in DTYPES if d not in taken and d not in (torch.float16, torch.bfloat16)):

        def other(x: Any, dtype: torch.dtype = dtype) -> Any:
            return x.to(dtype) if isinstance(x, torch.Tensor) and x.dtype == own else x

        for number, sample in enumerate(found):
            arguments = pytree.tree_map(other, _arguments(sample))
            yield Malformed(f"{entry.formatted_name} {dtype} {number}", entry, arguments)


def _with_outputs(entry: Any, found: list[Any]) -> Iterator[Malformed]:
    if entry.supports_out:
        for dtype, (number, sample) in itertools.product(DTYPES, enumerate(found)):
            yield Malformed(f"{entry.formatted_name} out={dtype} {number}", entry, _arguments(sample), dtype)


def _error(case: Malformed, device: str | None) -> Exception | None:
    try:
        case.call(device)
    except Exception as error:  # noqa: BLE001  (what it is, is what is asked)
        return error
    return None


def run(case: Malformed, device: str) -> tuple[Verdict, str] | None:
    """What the device does; None where the host refuses nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = _error(case, None)
        if theirs is None:
            return None
        ours = _error(case, device)
    if ours is not None and "complex" in str(ours):  # an argument that the device cannot have
        return None
    if ours is None:
        return Verdict.ACCEPTED, f"{type(theirs).__name__}: {line(theirs)}"
    if isinstance(ours, type(theirs)):
        return Verdict.REFUSED, ""
    shown = (f"{type(e).__name__}: {line(e)}" for e in (theirs, ours))
    return Verdict.OTHERWISE, "  |  ".join(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--match", default="")
    parser.add_argument("--failures", action="store_true", help="list what was not refused alike")
    arguments = parser.parse_args()

    import hologram_torch.module

    hologram_torch.module.set_backend(arguments.backend)
    console = Console(stderr=True)
    found = [entry for entry in op_db if entry.name.startswith(arguments.match)]
    counts: collections.Counter[Verdict] = collections.Counter()
    for entry in track(found, console=console, disable=not console.is_terminal):
        for case in malformed(entry):
            result = run(case, "hologram:0")
            if result is not None:
                counts[result[0]] += 1
                if arguments.failures and result[0] is not Verdict.REFUSED:
                    print(f"{result[0].value}\t{case.name}\t{result[1]}", flush=True)
    table = Table("what the device did", "arguments")
    for verdict in Verdict:
        table.add_row(verdict.value, str(counts[verdict]))
    table.add_row("all", str(sum(counts.values())))
    Console().print(table)


if __name__ == "__main__":
    main()
