"""Two processes train as one does, and their collectives say what they should on tensors of the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
from tests.torch import two_parts, two_processes  # noqa: E402


def test_two_processes_are_as_one(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(two_processes.work, args=(str(tmp_path),), nprocs=2)
    alone = two_processes.model()
    two_processes.train(alone, *two_processes.batch())
    for rank in range(2):
        for form in two_processes.FORMS:
            found = torch.load(tmp_path / f"{rank}-{form}.pt")
            assert list(found) == list(alone.state_dict())
            for key, trained in found.items():
                torch.testing.assert_close(trained, alone.state_dict()[key], rtol=1e-10, atol=1e-10)


def test_a_process_that_goes_is_named_by_the_collective(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(two_processes.deserted, args=(str(tmp_path),), nprocs=2)
    said = (tmp_path / "said").read_text().splitlines()
    where = " of rank 0 of 2: "
    told = [f"c10d::allreduce_{where}", "NaN", f"c10d::_allgather_base_{where}", f"c10d::recv_{where}"]
    assert len(said) == len(told)
    for line, begin in zip(said, told, strict=True):
        assert line.startswith(begin), said


def test_layers_in_two_processes_are_as_one(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(two_parts.work, args=(str(tmp_path),), nprocs=2)
