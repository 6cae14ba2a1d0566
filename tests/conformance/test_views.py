"""A fixed part of PyTorch's operator database with views for tensors: the device gives what the host gives."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.utils import _pytree as pytree  # noqa: E402

import hologram as hg  # noqa: E402
import hologram_torch  # noqa: E402, F401
from hologram_torch.device.devices import devices  # noqa: E402
from tests.conformance import ledger, nodes, views  # noqa: E402
from tests.conformance.nodes import Node  # noqa: E402

PART = 72  # one node of so many
GROUPS = 4  # tests that the part is cut into
SAMPLES = 2


def chosen(group: int) -> list[tuple[Node, Any]]:
    """The nodes of a group, each with a kind of view: always the same, whatever the database holds besides."""
    found = []
    for node in nodes.nodes(complex_numbers=True):
        number = zlib.crc32(node.name.encode())
        if number % PART == 1 and number // PART % GROUPS == group:
            found.append((node, views.KINDS[number // PART // GROUPS % len(views.KINDS)]))
    return found


def given(sample: Any, device: str, kind: Any) -> Any:
    """A sample's arguments with views for tensors."""

    def leaf(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return views.seen(x, device, kind)
        return torch.device(device) if isinstance(x, torch.device) or x == "cpu" else x

    return pytree.tree_map(leaf, (sample.input, sample.args, sample.kwargs))


def call(node: Node, arguments: Any) -> Any:
    """An entry's results, on the host."""
    first, args, kwargs = arguments
    torch.manual_seed(0)
    found = node.entry.op(first, *args, **kwargs)
    return pytree.tree_map(lambda x: x.cpu().clone() if isinstance(x, torch.Tensor) else x, found)


REFUSALS = (AssertionError, ValueError, RuntimeError, TypeError, IndexError)


def attempt(function: Callable[[], Any]) -> Any:
    """What a call gives, or the error that it raises."""
    try:
        return function()
    except REFUSALS as error:
        return error


def compared(node: Node, sample: Any, kind: Any, device: str) -> str | None:
    """What is wrong with the results for views; None if nothing, or where the host refuses these.

    They must be the host's, or the device's of copies: the host is wrong about some expanded views, results for
    matrices of equal rows may be any of several, and some entries look at what lies around a view.
    """
    laid = given(sample, "cpu", kind)
    copies = pytree.tree_map(
        lambda x: x.contiguous().clone() if isinstance(x, torch.Tensor) and x.layout is torch.strided else x,
        laid,
    )
    want = attempt(lambda: call(node, laid))
    for _ in range(0 if isinstance(want, Exception) else 2):  # the long way, then the short one
        got = attempt(lambda: call(node, given(sample, device, kind)))
        wrong = got if isinstance(got, Exception) else _apart(node, sample, got, want)
        if wrong is not None:
            same = attempt(lambda: call(node, nodes.moved(copies, device)))
            if type(got) is not type(same) or (wrong is not got and _apart(node, sample, got, same)):
                return f"{node.name}, {kind.__name__}: {wrong!r}"
    return None


def _apart(node: Node, sample: Any, got: Any, want: Any) -> Exception | None:
    """How results differ."""
    return attempt(lambda: nodes.compare(got, nodes.chosen_alike(node, sample, got, want)))


@pytest.mark.parametrize("group", range(GROUPS))
def test_views_are_like_copies(backend: str, group: int, executor: hg.Executor) -> None:
    index = next((k for k, place in enumerate(devices.places) if place.backend == backend), None)
    if index is None:
        pytest.skip(f"no device of {backend} here")
    known = ledger.entries(backend)
    surprises: list[str] = []
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for node, kind in chosen(group):
            expected = nodes.expected(node) or nodes.expected(node, complex_numbers=True)
            if node.name in known or expected is None:
                continue
            for sample, _ in expected[:SAMPLES]:
                count += 1
                wrong = compared(node, sample, kind, f"hologram:{index}")
                surprises += [] if wrong is None else [wrong]
    assert count > 8
    assert not surprises, "\n".join(surprises)
