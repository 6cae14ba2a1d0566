"""How many nodes of PyTorch's operator database pass on the device.

python -m tests.conformance [--backend cpu|webgpu] [--match TEXT] [--complex] [--json FILE] [--failures]
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from hologram.foundation.config import config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default=config.backend if config.backend != "auto" else "cpu")
    parser.add_argument("--match", default="")
    parser.add_argument("--complex", action="store_true", help="what takes or gives complex numbers instead")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--failures", action="store_true", help="list what the ledger does not expect")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th entry from the K-th on")
    arguments = parser.parse_args()

    import hologram_torch.module
    from tests.conformance import ledger, nodes

    hologram_torch.module.set_backend(arguments.backend)
    console = Console(stderr=True)
    part, parts = map(int, arguments.part.split("/"))
    found = [n for n in nodes.nodes(arguments.complex) if n.name.startswith(arguments.match)][part::parts]
    results = []
    for node in track(found, console=console, disable=not console.is_terminal):
        wanted = nodes.expected(node, arguments.complex)
        if wanted is not None:
            results.append(nodes.run(node, wanted, "hologram:0"))
    counts = collections.Counter(r.outcome for r in results)
    if arguments.failures:
        for result in results:
            known = ledger.entries(arguments.backend).get(result.name)
            if (result.outcome is nodes.Outcome.PASSED) == (known is not None):
                print(f"{result.outcome.value}\t{result.name}\t{result.reason}", flush=True)
    table = Table("outcome", "nodes")
    for outcome in nodes.Outcome:
        table.add_row(outcome.value, str(counts[outcome]))
    table.add_row("all", str(len(results)))
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(
            json.dumps([dataclasses.asdict(r) | {"outcome": r.outcome.value} for r in results], indent=1)
        )


if __name__ == "__main__":
    main()
