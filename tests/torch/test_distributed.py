"""Two processes, each with a device, train as one does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
from tests.torch import two_processes  # noqa: E402


def test_data_parallel_training_is_training(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(two_processes.work, args=(str(tmp_path),), nprocs=2)
    alone = two_processes.model()
    two_processes.train(alone, *two_processes.batch())
    for rank in range(2):
        for form in ("", "-sharded", "-fully_sharded"):
            found = torch.load(tmp_path / f"{rank}{form}.pt")
            assert list(found) == list(alone.state_dict())
            for name, trained in found.items():
                torch.testing.assert_close(trained, alone.state_dict()[name], rtol=1e-5, atol=1e-6)
