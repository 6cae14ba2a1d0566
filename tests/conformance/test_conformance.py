"""A fixed part of PyTorch's operator database on every backend; `python -m tests.conformance` runs the whole."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.utils._pytree import tree_leaves  # noqa: E402

import hologram as hg  # noqa: E402
import hologram_torch  # noqa: E402, F401
from hologram_torch.device.devices import devices  # noqa: E402
from tests.conformance import ledger, nodes  # noqa: E402
from tests.needs import has  # noqa: E402

PART = 24  # one node of so many
GROUPS = 8  # tests that the part is cut into


def chosen(group: int) -> list[nodes.Node]:
    """The nodes of a group: always the same, whatever the database holds besides."""
    numbers = ((node, zlib.crc32(node.name.encode())) for node in nodes.nodes())
    return [node for node, number in numbers if number % PART == 0 and number // PART % GROUPS == group]


def is_wide(node: nodes.Node, wanted: list[tuple[Any, Any]]) -> bool:
    """Whether a node takes or gives numbers of f64."""
    dtypes = {x.dtype for _, found in wanted for x in tree_leaves(found) if isinstance(x, torch.Tensor)}
    return torch.float64 in dtypes | {node.dtype}


@pytest.mark.parametrize("group", range(GROUPS))
def test_nodes_pass_or_stand_in_the_ledger(backend: str, group: int, executor: hg.Executor) -> None:
    index = next((k for k, place in enumerate(devices.places) if place.backend == backend), None)
    if index is None:
        pytest.skip(f"no device of {backend} here")
    known = ledger.entries(backend)
    doubles = has(executor, "f64")
    surprises = []
    count = 0
    for node in chosen(group):
        wanted = nodes.expected(node)
        if wanted is None:
            continue
        count += 1
        result = nodes.run(node, wanted, f"hologram:{index}")
        passed = result.outcome is nodes.Outcome.PASSED
        if passed and node.name in known:
            surprises.append(f"{node.name} passes: take it out of the ledger")
        elif not doubles and is_wide(node, wanted) and result.reason.endswith("has no f64"):
            continue
        elif not passed and node.name not in known:
            surprises.append(f"{node.name}: {result.outcome.value}, {result.reason}")
    assert count > 8
    assert not surprises, "\n".join(surprises)


def test_the_ledger_names_nodes_that_exist() -> None:
    names = {node.name for node in nodes.nodes()}
    for backend in ("cpu", "webgpu", "cuda", "metal"):
        assert ledger.entries(backend).keys() <= names
