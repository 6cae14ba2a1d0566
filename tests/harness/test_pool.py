"""The scheduler of a run: what each process is sent, and in which order."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.harness import kinds
from tests.harness.pool import AHEAD, CHUNK, Pool, chunks


class Node:
    """A process as xdist shows it: runs what it is sent when it is asked to, in order."""

    def __init__(self, kind: str) -> None:
        self.gateway = SimpleNamespace(spec=SimpleNamespace(env={kinds.NAME: kind}))
        self.sent: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.shutting_down
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def able(self) -> bool:
        """Whether it has what it needs to begin a test."""
        return len(self.sent) >= (1 if self.shutting_down else AHEAD)


def seconds(test: str) -> tuple[bool, float]:
    """Tests say themselves what they take: `file::name=seconds`, and which come first."""
    return "touched" in test, float(test.partition("=")[2] or 0)


def finish(pool: Pool, nodes: list[Node], width: int) -> dict[Node, list[int]]:
    """Has the processes run all tests; what each did, in order. Never more than `width` are at work."""
    done: dict[Node, list[int]] = {node: [] for node in nodes}
    while not all(node.shutting_down and not node.sent for node in nodes):
        able = [node for node in nodes if node.able and node in pool.nodes]
        assert 0 < len(able) <= width
        for node in able:
            test = node.sent.pop(0)
            done[node].append(test)
            pool.mark_test_complete(node, test)
            if node.shutting_down and not node.sent:
                assert pool.remove_node(node) is None
    assert pool.tests_finished
    assert not pool.unfinished(list(pool.chunks))
    return done


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_every_test_runs_once_in_its_kind(width: int) -> None:
    names = [kind.name for kind in kinds.KINDS for _ in range(1 if kind.alone else width)]
    nodes = [Node(name) for name in names]
    found: list[int] = []
    pool = Pool(len(nodes), width, seconds, found.append)
    for node in nodes:
        pool.add_node(node)
    for k, node in enumerate(reversed(nodes)):  # in another order than they were started in
        count = len(node.gateway.spec.env[kinds.NAME])
        pool.add_node_collection(node, [f"{file}.py::test={file}" for file in range(count) for _ in range(7)])
        assert not pool.tests_finished or k == len(nodes) - 1
        pool.schedule()
    done = finish(pool, nodes, width)
    for kind in kinds.KINDS:
        ran = [t for node in nodes if node.gateway.spec.env[kinds.NAME] == kind.name for t in done[node]]
        assert sorted(ran) == list(range(7 * len(kind.name)))
    assert found[-1] == max(len(kind.name) for kind in kinds.KINDS)  # different names of tests


def test_a_kind_without_tests_ends_at_once() -> None:
    nodes = [Node("unoptimised"), Node("lacking")]
    pool = Pool(2, 2, seconds, lambda tests: None)
    for node in nodes:
        pool.add_node(node)
    pool.add_node_collection(nodes[1], [])
    pool.schedule()
    assert nodes[1].shutting_down
    assert not pool.tests_finished
    pool.remove_node(nodes[1])
    pool.add_node_collection(nodes[0], ["a.py::test"])
    pool.schedule()
    assert finish(pool, nodes[:1], 2)[nodes[0]] == [0]


def test_a_crash_costs_the_test_it_came_in_alone() -> None:
    first, second = Node("unoptimised"), Node("unoptimised")
    pool = Pool(1, 1, seconds, lambda tests: None)
    pool.add_node(first)
    pool.add_node_collection(first, tests := [f"a.py::{k}=1" for k in range(5)])
    pool.schedule()
    pool.mark_test_complete(first, first.sent.pop(0))
    assert pool.remove_node(first) == tests[1]
    assert not pool.tests_finished
    assert pool.unfinished(["unoptimised", "emulated"]) == ["unoptimised", "emulated"]  # one never began
    pool.add_node(second)  # xdist starts another process
    pool.add_node_collection(second, tests)
    pool.schedule()
    assert finish(pool, [second], 1)[second] == [2, 3, 4]


def test_processes_of_a_kind_must_collect_the_same() -> None:
    nodes = [Node("as-users"), Node("as-users")]
    pool = Pool(2, 2, seconds, lambda tests: None)
    for node in nodes:
        pool.add_node(node)
    pool.add_node_collection(nodes[0], ["a.py::test"])
    with pytest.raises(RuntimeError, match="kind as-users have collected different tests"):
        pool.add_node_collection(nodes[1], ["b.py::test"])


def test_what_changes_touch_comes_first_and_then_the_longest() -> None:
    tests = [
        "a.py::x=1",
        "a.py::touched=1",
        "b.py::x=30",
        "c.py::x=3",
        "c.py::y=3",
        "c.py::z=3",
        "d.py::touched=2",
    ]
    assert chunks(tests, seconds) == [[6], [1], [2], [3, 4], [5], [0]]
    assert sum(seconds(tests[k])[1] for k in chunks(tests, seconds)[3]) <= CHUNK
