"""Graph layers without its compiled extensions: forward and backward; scatter, pooling, batches."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

pytest.importorskip("torch_geometric")
from torch_geometric import nn
from torch_geometric.data import Batch, Data
from torch_geometric.utils import scatter, softmax

LIBRARY = "torch_geometric"
LAYERS = {
    "GCNConv": {},
    "SAGEConv": {},
    "GATConv": {"heads": 2},
    "GINConv": None,
    "TransformerConv": {"heads": 2},
    "ChebConv": {"K": 3},
    "EdgeConv": None,
}


def graph() -> Data:
    return Data(x=torch.randn(12, 8), edge_index=torch.randint(0, 12, (2, 40)))


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    options = LAYERS[name]
    made: Any = getattr(nn, name)
    if options is None:
        inner = torch.nn.Linear(16 if name == "EdgeConv" else 8, 6)
        host = made(inner)
    else:
        host = made(8, 6, **options)
    data = graph()
    ours = copy.deepcopy(host).to("hologram")
    there = data.clone().to("hologram")
    found, wanted = ours(there.x, there.edge_index), host(data.x, data.edge_index)
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-5)
    found.square().sum().backward()
    wanted.square().sum().backward()
    for p, q in zip(ours.parameters(), host.parameters(), strict=True):
        torch.testing.assert_close(p.grad.cpu(), q.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("reduce", ["sum", "mean", "min", "max", "mul"])
def test_scatter(reduce: str) -> None:
    x, index = torch.randn(30, 4), torch.randint(0, 7, (30,))
    found = scatter(x.to("hologram"), index.to("hologram"), dim_size=9, reduce=reduce)
    torch.testing.assert_close(found.cpu(), scatter(x, index, dim_size=9, reduce=reduce))


def test_batches_and_pools() -> None:
    batch = Batch.from_data_list([graph() for _ in range(4)])
    there = batch.to("hologram")
    for pool in (nn.global_mean_pool, nn.global_max_pool, nn.global_add_pool):
        torch.testing.assert_close(
            pool(there.x, there.batch).cpu(), pool(batch.x.cpu(), batch.batch.cpu()), rtol=1e-5, atol=1e-5
        )
    scores = softmax(there.x[:, 0], there.batch)
    torch.testing.assert_close(scores.cpu(), softmax(batch.x[:, 0].cpu(), batch.batch.cpu()))
