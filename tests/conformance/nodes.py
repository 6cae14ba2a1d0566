"""Nodes of PyTorch's operator database: an entry and a dtype, run on the host and on the device."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree

from tests.conformance.database import op_db

DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
)
COMPLEX = (torch.complex64, torch.complex128)
SAMPLES = 6
TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (2e-5, 2e-5),
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (3.2e-2, 3.2e-2),
    torch.complex64: (2e-5, 2e-5),
    torch.complex128: (1e-7, 1e-7),
}


class Outcome(Enum):
    """What became of a node."""

    PASSED = "passed"
    REFUSED = "refused"  # no kernel
    FAILED = "failed"  # another error
    WRONG = "wrong"  # other numbers, dtypes, shapes or strides than the host's


@dataclass(frozen=True)
class Node:
    """An entry of the database and a dtype."""

    entry: Any
    dtype: torch.dtype

    @property
    def name(self) -> str:
        variant = f".{self.entry.variant_test_name}" if self.entry.variant_test_name else ""
        return f"{self.entry.name}{variant}:{str(self.dtype).removeprefix('torch.')}"


@dataclass(frozen=True)
class Result:
    """A node's outcome, and the first line of what went wrong."""

    name: str
    outcome: Outcome
    reason: str = ""


def nodes(complex_numbers: bool = False) -> Iterator[Node]:
    """Every entry with every dtype that it takes on the host; with complex ones, on request."""
    for entry in op_db:
        for dtype in (*DTYPES, *COMPLEX) if complex_numbers else DTYPES:
            if dtype in entry.supported_dtypes("cpu"):
                yield Node(entry, dtype)


def samples(node: Node) -> list[Any]:
    """The first samples of a node, on the host."""
    torch.manual_seed(0)
    return list(itertools.islice(node.entry.sample_inputs("cpu", node.dtype), SAMPLES))


def moved(tree: Any, device: str) -> Any:
    """A tree with its tensors and devices on another device."""

    def leaf(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return x.to(device)
        return torch.device(device) if isinstance(x, torch.device) or x == "cpu" else x

    return pytree.tree_map(leaf, tree)


def call(node: Node, sample: Any, device: str | None) -> Any:
    """An entry's result for a sample, on the device; `device` is None for the host."""
    given = (sample.input, sample.args, sample.kwargs)
    given = pytree.tree_map(lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x, given)
    if device is not None:
        given = moved(given, device)
    first, args, kwargs = given
    torch.manual_seed(0)
    found = node.entry.op(first, *args, **kwargs)
    if device is not None:
        for x in pytree.tree_leaves(found):
            if isinstance(x, torch.Tensor) and x.device.type != "hologram":
                raise AssertionError(f"a result is on {x.device}")
    return found


def on_host(tree: Any) -> Any:
    return pytree.tree_map(lambda x: x.cpu() if isinstance(x, torch.Tensor) else x, tree)


def lies(x: Any) -> Any:
    """The strides of a tensor that has elements, along axes of more than one; None for what has no such."""
    if not isinstance(x, torch.Tensor) or x.layout != torch.strided or not x.numel():
        return None
    return tuple(step for n, step in zip(x.shape, x.stride(), strict=True) if n > 1)


def compare_strides(got: Any, want: Any) -> None:
    """Raises AssertionError unless the tensors of two trees lie alike."""
    for a, b in zip(pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True):
        assert lies(a) == lies(b), (
            f"strides {a.stride()}, {b.stride()} was expected of shape {tuple(b.shape)}"
        )


class Apart(Enum):
    """Why an entry is not compared with the others."""

    NOT = 0
    DRAWS = 1  # random numbers, so that two calls differ
    COMPLEX = 2  # results of real numbers


_apart: dict[int, Apart] = {}  # by the identity of an entry, which has no hash


def apart(entry: Any) -> Apart:
    """What an entry does with real numbers, if it takes them."""
    found = _apart.get(id(entry))
    if found is None:
        found = _apart[id(entry)] = _found_apart(entry)
    return found


def _found_apart(entry: Any) -> Apart:
    node = Node(entry, torch.float32 if torch.float32 in entry.supported_dtypes("cpu") else torch.int64)
    if node.dtype not in entry.supported_dtypes("cpu"):
        node = Node(entry, next(iter(entry.supported_dtypes("cpu"))))
    for sample in samples(node):
        first, second = _drawn(node, sample, 0), _drawn(node, sample, 1)
        if isinstance(first, Exception) or isinstance(second, Exception):
            continue
        for a, b in zip(pytree.tree_leaves(first), pytree.tree_leaves(second), strict=True):
            if isinstance(a, torch.Tensor):
                if a.shape != b.shape or not torch.equal(_plain(a), _plain(b)):
                    return Apart.DRAWS
                if a.dtype.is_complex:
                    return Apart.COMPLEX
    return Apart.NOT


def _plain(x: torch.Tensor) -> torch.Tensor:
    return (torch.view_as_real(x.resolve_conj()) if x.dtype.is_complex else x).nan_to_num()


def _drawn(node: Node, sample: Any, seed: int) -> Any:
    given = pytree.tree_map(
        lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x,
        (sample.input, sample.args, sample.kwargs),
    )
    set_seed = torch.manual_seed
    set_seed(seed)
    try:
        # Entries of random numbers set a seed of their own.
        with mock.patch("torch.manual_seed", side_effect=lambda _: set_seed(seed)):
            return node.entry.op(given[0], *given[1], **given[2])
    except Exception as error:  # noqa: BLE001  (the host refuses some of its own samples)
        return error


def expected(node: Node, complex_numbers: bool = False) -> list[tuple[Any, Any]] | None:
    """Samples with the host's results; None for a node that the host does not pass, or that is left out.

    These are the nodes of real numbers, or those that have a complex number among what they take or give.
    """
    left_out = (Apart.DRAWS,) if complex_numbers else (Apart.DRAWS, Apart.COMPLEX)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if apart(node.entry) in left_out:
                return None
            found = [(sample, call(node, sample, None)) for sample in samples(node)]
        except Exception:  # noqa: BLE001
            return None
    leaves = [x for _, r in found for x in pytree.tree_leaves(r) if isinstance(x, torch.Tensor)]
    has_complex = node.dtype.is_complex or any(x.dtype.is_complex for x in leaves)
    return found if has_complex == complex_numbers else None


def run(node: Node, wanted: list[tuple[Any, Any]], device: str) -> Result:
    """Runs a node on a device and compares."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample, want in wanted:
            try:
                got = call(node, sample, device)
            except NotImplementedError as error:
                return Result(node.name, Outcome.REFUSED, line(error))
            except Exception as error:  # noqa: BLE001  (whatever it is, it is the node's result)
                return Result(node.name, Outcome.FAILED, f"{type(error).__name__}: {line(error)}")
            there, got = got, on_host(got)
            try:
                compare(got, chosen_alike(node, sample, got, want))
            except (AssertionError, ValueError, RuntimeError) as error:
                if not nearer(node, sample, got, want):
                    return Result(node.name, Outcome.WRONG, line(error))
            try:
                compare_strides(there, want)
            except AssertionError as error:
                return Result(node.name, Outcome.WRONG, line(error))
    return Result(node.name, Outcome.PASSED)


# Entries whose results name one of several equal elements, any of them, and which argument is the axis.
CHOICES = {"sort": 0, "argsort": 0, "topk": 1, "kthvalue": 1}


# Entries whose last result has eigenvectors as columns, each but for a factor of magnitude 1.
VECTORS = ("linalg.eig", "linalg.eigh")


def turned_alike(got: Any, want: Any) -> Any:
    """Eigenvectors that are wanted, turned as those that were got are."""
    vectors = want[-1]
    if got[-1].shape != vectors.shape or got[-1].dtype != vectors.dtype or not vectors.numel():
        return want
    along = (vectors.conj() * got[-1]).sum(-2, keepdim=True)
    return type(want)((*want[:-1], vectors * along.sgn()))


def chosen_alike(node: Node, sample: Any, got: Any, want: Any) -> Any:
    """What is wanted, but the positions that were got where they name, each once, elements equal to those wanted."""
    if node.entry.name in VECTORS:
        return turned_alike(got, want)
    place = CHOICES.get(node.entry.name)
    if place is None or sample.kwargs.get("stable"):
        return want
    axis = sample.kwargs.get("dim", sample.args[place] if len(sample.args) > place else -1)
    ours, theirs = ([x] if isinstance(x, torch.Tensor) else list(x) for x in (got, want))
    if not sample.input.ndim or [x.shape for x in ours] != [x.shape for x in theirs]:
        return want
    found = []
    for positions in (ours[-1], theirs[-1]):
        positions = positions if positions.ndim == sample.input.ndim else positions.unsqueeze(axis)
        ordered = positions.sort(axis)[0]
        if ordered.numel() and not bool(ordered.diff(dim=axis).all()):  # one is named twice
            return want
        found.append(sample.input.gather(axis, positions))
    if not torch.equal(found[0].nan_to_num(), found[1].nan_to_num()):
        return want
    return ours[-1] if isinstance(want, torch.Tensor) else type(want)((*theirs[:-1], ours[-1]))


def compare(got: Any, want: Any) -> None:
    """Raises AssertionError unless two trees have the same tensors."""
    ours, theirs = pytree.tree_leaves(got), pytree.tree_leaves(want)
    assert len(ours) == len(theirs), f"{len(ours)} results, {len(theirs)} were expected"
    for a, b in zip(ours, theirs, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b or a != a, f"{a}, {b} was expected"
            continue
        assert a.dtype == b.dtype, f"dtype {a.dtype}, {b.dtype} was expected"
        assert a.shape == b.shape, f"shape {tuple(a.shape)}, {tuple(b.shape)} was expected"
        rtol, atol = TOLERANCES.get(b.dtype, (0.0, 0.0))
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)


def nearer(node: Node, sample: Any, got: Any, want: Any) -> bool:
    """Whether results of 16 bits are as near as the host's to those that the host computes in f64.

    The host sums some of these operators in 16 bits.
    """
    if node.dtype not in (torch.float16, torch.bfloat16):
        return False

    def wide(x: Any) -> Any:
        return x.double() if isinstance(x, torch.Tensor) and x.dtype == node.dtype else x

    given = pytree.tree_map(wide, (sample.input, sample.args, sample.kwargs))
    try:
        exact = call(node, SimpleNamespace(input=given[0], args=given[1], kwargs=given[2]), None)
    except Exception:  # noqa: BLE001  (operands of other dtypes that do not go with f64)
        return False
    trees = [pytree.tree_leaves(tree) for tree in (got, want, exact)]
    return len({len(tree) for tree in trees}) == 1 and all(map(_nearer, *trees))


def _nearer(ours: Any, theirs: Any, exact: Any) -> bool:
    if not isinstance(theirs, torch.Tensor):
        return ours == theirs
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape) or exact.shape != theirs.shape:
        return False
    errors = [
        torch.where(x.double() == exact.double(), 0.0, x.double() - exact.double()) for x in (ours, theirs)
    ]
    if bool((errors[1].isfinite() & ~errors[0].isfinite()).any()):
        return False
    ours, theirs = (e.abs().nan_to_num(0.0, 0.0, 0.0) for e in errors)
    return not ours.numel() or bool(ours.max() <= theirs.max())


def line(error: BaseException) -> str:
    """An error in a line."""
    text = " ".join(str(error).split())
    return text[:200]
