"""torch.nn.DataParallel: a module on one device or several, as on the host."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402


@pytest.mark.parametrize("numbers", [None, [0], [0, 1]], ids=str)
@pytest.mark.parametrize("rows", [1, 5])
def test_a_module_in_parallel_is_the_module(numbers: list[int] | None, rows: int) -> None:
    torch.manual_seed(0)
    host = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh()).eval()
    x = torch.randn(rows, 3)
    device: Any = nn.DataParallel(copy.deepcopy(host).to("hologram"), device_ids=numbers)
    found = device(x.to("hologram"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PyTorch is not compiled with NCCL")
        found.square().sum().backward()
    wanted = host(x)
    wanted.square().sum().backward()
    assert found.device == torch.device("hologram", 0)
    torch.testing.assert_close(found.detach().cpu(), wanted.detach())
    for mine, theirs in zip(device.module.parameters(), host.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.cpu(), theirs.grad)


def test_pieces_of_the_hosts_tensors_go_to_the_devices() -> None:
    x = torch.arange(10.0)
    pieces = torch.nn.parallel.comm.scatter(x, [0, 0], chunk_sizes=[3, 7])
    assert [(p.device.type, p.tolist()) for p in pieces] == [
        ("hologram", x[:3].tolist()),
        ("hologram", x[3:].tolist()),
    ]
    assert torch.nn.parallel.comm.gather(pieces, destination="cpu").tolist() == x.tolist()
