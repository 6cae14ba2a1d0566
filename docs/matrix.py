"""The matrix of adapters and work, in Markdown: what docs/matrix.md holds, made from reports that are kept."""

from __future__ import annotations

from pathlib import Path

from hologram.benchmark.report.compare import side_by_side
from hologram.benchmark.report.markdown import table
from hologram.benchmark.report.records import load

REPORTS = Path(__file__).parent.parent / "bench" / "results"
HEAD = """# The matrix: adapters and work

What `hologram bench` measured on each machine whose report is kept under `bench/results/`, a column for each of its
adapters. Made by `python docs/matrix.py > docs/matrix.md`; a test holds it to the reports. Times of different machines
say nothing of which is better built; each column is to be read by its own copies and products.

Yours is missing: run `pip install '.[bench]'` in a checkout and `hologram bench` on a machine that does nothing else,
and send `hologram-bench/report.json` with the output of `hologram doctor --json` as an issue, "It ran on a device". How
times are taken: [benchmarks](benchmarks.md).
"""


def page() -> str:
    """The whole document."""
    found = {path.parent.name: load(path) for path in sorted(REPORTS.glob("*/report.json"))}
    lines = [HEAD.rstrip()]
    for one in side_by_side(found):
        lines += ["", f"## {one.title}", "", *table(one)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
