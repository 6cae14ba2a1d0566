"""Which tests of those collected a process runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.harness import kinds
from tests.harness.choice import Choice


def kept(items: list[pytest.Item], config: pytest.Config, choice: Choice) -> list[pytest.Item]:
    """The tests that are left by marks, by the kind of process, by --every, and by what changes touch."""
    kind = kinds.of_process()
    whole = config.getoption("--whole") or (kind is not None and kind.whole)
    if kind is not None:  # whose own a file that the command names need not be
        items = [item for item in items if kind.runs(item.nodeid)]
    left = items if whole else list(sampled(items, choice.turn))
    if kind is not None and not config.getoption("--kinds"):
        left = list(_thinned(left, kind, choice.turn))
    left = left[:: config.getoption("--every")]
    return [item for item in left if choice.takes(item.nodeid)]


def sampled(items: list[pytest.Item], residue: int = 0) -> Iterator[pytest.Item]:
    """One in as many cases of a file's tests as its mark says, evenly spread; tests without cases all run.

    Each backend begins one case later than the one before, so that together they run more of the cases, and each
    residue one later than the residue before.
    """
    seen: dict[str, Counter[str | None]] = {}
    for item in items:
        mark, file = item.get_closest_marker("sampled"), item.nodeid.partition("::")[0]
        if mark is None or not cases(item):
            yield item
            continue
        counts, backend = seen.setdefault(file, Counter()), backend_of(item)
        counts[backend] += 1
        if (counts[backend] - 1 + list(counts).index(backend) + residue) % mark.args[0] == 0:
            yield item


def _thinned(items: list[pytest.Item], kind: kinds.Kind, residue: int) -> Iterator[pytest.Item]:
    """One in so many cases of a file as a kind of process runs."""
    seen: Counter[str] = Counter()
    for item in items:
        file = item.nodeid.partition("::")[0]
        seen[file] += 1
        if (seen[file] - 1 + residue) % kind.every_of(file) == 0:
            yield item


def cases(item: pytest.Item) -> bool:
    """Whether a test has cases, beside the backends."""
    return bool(set(getattr(getattr(item, "callspec", None), "params", ())) - {"backend"})


def backend_of(node: pytest.Item | pytest.Collector) -> str | None:
    """The backend that a test is for: its parameter, or its folder under tests/backends."""
    callspec = getattr(node, "callspec", None)
    for name in ("backend", "executor"):
        if callspec is not None and name in callspec.params:
            return str(callspec.params[name])
    parts = node.path.parts
    if "backends" in parts[:-1]:
        return parts[parts.index("backends") + 1].removesuffix(".py")
    return None
