"""One run of all kinds of process: `pytest --pool N` has at most N of them at work at a time, the longest tests first.

xdist starts the processes, each of which collects the tests of its kind, and asks the scheduler here what to send them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.harness import kinds

CHUNK = 8.0  # seconds of tests that a process is given at a time
AHEAD = 2  # tests that a process must have, to begin one: it asks for the next one's fixtures
Cost = Callable[[str], tuple[bool, float]]  # of a test: whether it comes first, and its seconds


@dataclass
class Worker:
    """A process: its kind, its tests, and those that it was sent and has not run."""

    kind: str
    collection: list[str] | None = None
    pending: list[int] = field(default_factory=list)
    started: bool = False


class Pool:
    """A scheduler of xdist's, whose protocol names these methods.

    Kinds are started in their order; a process that finds nothing left of its kind ends, and makes room for the next.
    """

    def __init__(self, expected: int, width: int, cost: Cost, found: Callable[[int], None]) -> None:
        self.expected, self.width, self.cost, self.found = expected, width, cost, found
        self.workers: dict[Any, Worker] = {}
        self.collected = 0
        self.chunks: dict[str, list[list[int]]] = {}

    @property
    def nodes(self) -> list[Any]:
        return list(self.workers)

    @property
    def collection_is_completed(self) -> bool:
        return self.collected > 0

    @property
    def has_pending(self) -> bool:
        return any(self.chunks.values()) or any(w.pending for w in self.workers.values())

    @property
    def tests_finished(self) -> bool:
        if self.collected < self.expected or any(self.chunks.values()):
            return False
        return all(len(worker.pending) < AHEAD for worker in self.workers.values())

    def add_node(self, node: Any) -> None:
        self.workers[node] = Worker(node.gateway.spec.env[kinds.NAME])

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        worker = self.workers[node]
        self.collected += 1
        self.chunks.setdefault(worker.kind, chunks(collection, self.cost))
        alike = {w.kind: w.collection for w in self.workers.values() if w.collection is not None}
        if alike.setdefault(worker.kind, list(collection)) != list(collection):
            raise RuntimeError(f"two processes of the kind {worker.kind} have collected different tests")
        worker.collection = list(collection)
        self.found(len(set().union(*alike.values())))  # as pytest counts what it has reported

    def schedule(self) -> None:
        """Gives every process that may work enough to do."""
        ready = [(n, w) for n, w in self.workers.items() if w.collection is not None and not n.shutting_down]
        for node, worker in ready:
            if worker.started:
                self._feed(node, worker)
        order = [kind.name for kind in kinds.KINDS]
        for node, worker in sorted(ready, key=lambda entry: order.index(entry[1].kind)):
            if worker.started or self._at_work() >= self.width:
                continue
            worker.started = bool(self.chunks[worker.kind])
            self._feed(node, worker)

    def _at_work(self) -> int:
        return sum(worker.started for worker in self.workers.values())

    def _feed(self, node: Any, worker: Worker) -> None:
        left = self.chunks[worker.kind]
        while len(worker.pending) < AHEAD and left:
            chunk = left.pop(0)
            worker.pending += chunk
            node.send_runtest_some(chunk)
        if len(worker.pending) < AHEAD:
            node.shutdown()  # it runs its last test, and ends

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        self.workers[node].pending.remove(item_index)
        self.schedule()

    def remove_node(self, node: Any) -> str | None:
        """The process has ended; where it crashed, the test that it did so in, and the others are given back."""
        worker = self.workers.pop(node)
        crashed = None
        if worker.pending and worker.collection is not None:
            crashed = worker.collection[worker.pending.pop(0)]
            self.expected += 1  # xdist starts another one
            if worker.pending:
                self.chunks[worker.kind].insert(0, worker.pending)
        self.schedule()
        return crashed

    def unfinished(self, names: Sequence[str]) -> list[str]:
        """The kinds among these that have not run all their tests: their processes died, or the run was ended."""
        busy = {worker.kind for worker in self.workers.values() if worker.pending}
        return [name for name in names if name in busy or self.chunks.get(name) != []]

    def mark_test_pending(self, item: str) -> None:
        raise NotImplementedError("tests are not run twice")

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        raise NotImplementedError("no process is asked to give tests back")


def chunks(collection: Sequence[str], cost: Cost) -> list[list[int]]:
    """Positions of tests, some seconds of one file together: first those that come first, then the longest."""
    files: dict[tuple[bool, str], list[tuple[int, float]]] = defaultdict(list)
    for position, test in enumerate(collection):
        first, seconds = cost(test)
        files[first, test.partition("::")[0]].append((position, seconds))
    made: list[tuple[bool, float, list[int]]] = []
    for (first, _), tests in files.items():
        chunk: list[int] = []
        total = 0.0
        for position, seconds in tests:
            if chunk and total + seconds > CHUNK:
                made.append((first, total, chunk))
                chunk, total = [], 0.0
            chunk.append(position)
            total += seconds
        made.append((first, total, chunk))
    made.sort(key=lambda entry: (not entry[0], -entry[1]))
    return [chunk for _, _, chunk in made]
