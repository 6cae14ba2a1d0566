"""Sparse tensors: products and sums of those in coordinates are the CPU's; whatever is not done is refused in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse"),
    pytest.mark.filterwarnings("ignore:.*beta state"),
]
torch.ones(1, device="hologram")  # whoever moves a compressed tensor first is told when it is used

DENSE = torch.tensor([[0.0, 1.5, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0], [-3.0, 0.0, 0.5, 0.0]])
TWICE = torch.sparse_coo_tensor(
    [[0, 2, 0, 2], [1, 0, 1, 3]], [0.5, -2.0, 1.0, 4.0], (3, 4)
)  # one place twice

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "sparse.mm": lambda x, y: torch.sparse.mm(x, y),
    "@": lambda x, y: x @ y,
    "a vector": lambda x, y: x @ y[:, 0],
    "transposed": lambda x, y: torch.sparse.mm(x.t(), y[:3]),
    "addmm": lambda x, y: torch.sparse.addmm(torch.ones(3, 2, device=y.device), x, y, beta=0.5, alpha=2.0),
    "torch.addmm": lambda x, y: torch.addmm(torch.ones(3, 2, device=y.device), x, y),
    "out": lambda x, y: torch.mm(x, y, out=torch.empty(3, 2, device=y.device)),
    "scaled by rows": lambda x, y: x * torch.arange(3.0, device=y.device)[:, None].expand(3, 4),
    "to_dense": lambda x, y: x.to_dense(),
    "sum": lambda x, y: x.sum(),
    "sum of rows": lambda x, y: torch.sparse.sum(x, 1).to_dense(),
    "negative": lambda x, y: -x,
    "relu": lambda x, y: x.relu(),
    "abs": lambda x, y: x.abs(),
    "power": lambda x, y: x**2,
    "cat": lambda x, y: torch.cat([x, x], 1),
    "sums": lambda x, y: x + x * 2,
    "coalesce": lambda x, y: x.coalesce().values(),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_computed_is_the_cpus(name: str) -> None:
    y = torch.arange(8.0).reshape(4, 2) - 3
    for x in (DENSE.to_sparse(), TWICE):
        want = CALLS[name](x, y)
        found = CALLS[name](x.to("hologram"), y.to("hologram"))
        assert (found.device.type, found.layout) == ("hologram", want.layout)
        dense = [t.to_dense() if t.is_sparse else t for t in (found.cpu(), want)]
        torch.testing.assert_close(dense[0], dense[1])


def test_derivatives_by_both() -> None:
    def gradients(device: str) -> list[Any]:
        x = TWICE.coalesce().to(device).requires_grad_()
        y = (torch.arange(8.0).reshape(4, 2) - 3).to(device).requires_grad_()
        torch.sparse.mm(x, y).square().sum().backward()
        return [x.grad.to_dense().cpu(), y.grad.cpu()]

    for found, want in zip(gradients("hologram"), gradients("cpu"), strict=True):
        torch.testing.assert_close(found, want)


def test_sums_of_narrow_floats_are_of_f32() -> None:
    ones = torch.ones(1, 5000, dtype=torch.float16)
    found = torch.sparse.mm(ones.to("hologram").to_sparse(), ones.T.to("hologram") * 0.5)
    assert found.item() == 2500


def test_a_dense_tensor_becomes_sparse() -> None:
    for axes in (None, 1, 2):
        args = () if axes is None else (axes,)
        found, want = DENSE.to("hologram").to_sparse(*args).cpu(), DENSE.to_sparse(*args)
        assert torch.equal(found.indices(), want.indices())
        assert torch.equal(found.values(), want.values())


BLOCKS = {"csr": (), "csc": (), "bsr": ((1, 2),), "bsc": ((1, 2),)}


@pytest.mark.parametrize("kind", BLOCKS)
def test_compressed_tensors_are_refused_where_they_are_moved_or_made(kind: str) -> None:
    x = getattr(DENSE, f"to_sparse_{kind}")(*BLOCKS[kind])
    parts = (
        (x.crow_indices(), x.col_indices()) if kind.endswith("sr") else (x.ccol_indices(), x.row_indices())
    )
    for call in (
        lambda: x.to("hologram"),
        lambda: x.hologram() if hasattr(x, "hologram") else x.to("hologram"),
        lambda: getattr(DENSE.to("hologram"), f"to_sparse_{kind}")(*BLOCKS[kind]),
        lambda: torch.sparse_compressed_tensor(
            *parts, x.values(), x.shape, layout=x.layout, device="hologram"
        ),
    ):
        with pytest.raises(NotImplementedError, match=rf"hologram.*torch\.sparse_{kind}.*to_dense\(\)"):
            call()


@pytest.mark.parametrize("name", ["softmax", "norm", "bmm", "@", "*"])
def test_what_is_not_done_is_refused_in_words(name: str) -> None:
    x = TWICE.to("hologram")
    calls: dict[str, Callable[[], Any]] = {
        "softmax": lambda: torch.sparse.softmax(x, 1), "norm": lambda: torch.norm(x),
        "bmm": lambda: torch.bmm(torch.stack([x, x]), torch.ones(2, 4, 1, device="hologram")),
        "@": lambda: x @ x.t(), "*": lambda: x * x,
    }  # fmt: skip
    with pytest.raises(NotImplementedError, match=r"^hologram.*to_dense\(\)"):
        calls[name]()
