"""Two processes train as one does, and their collectives say what they should on tensors of the device."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
from hologram_torch.distributed import cards  # noqa: E402
from tests.torch import two_parts, two_processes  # noqa: E402

IMPORTED = ("hologram_torch", "pytest", "torch.distributed.fsdp", "torch.distributed.tensor.parallel")


def in_two(work: Callable[[int, str], None], folder: Path) -> None:
    """Runs a function in two processes. They are forked from one that has imported what takes long, and no more."""
    method = "forkserver" if "forkserver" in torch.multiprocessing.get_all_start_methods() else "spawn"
    torch.multiprocessing.get_context(method).set_forkserver_preload(list(IMPORTED))
    torch.multiprocessing.start_processes(work, args=(str(folder),), nprocs=2, start_method=method)


def test_two_processes_are_as_one(tmp_path: Path) -> None:
    in_two(two_processes.work, tmp_path)
    alone = two_processes.model()
    two_processes.train(alone, *two_processes.batch())
    for rank in range(2):
        for form in two_processes.FORMS:
            found = torch.load(tmp_path / f"{rank}-{form}.pt")
            assert list(found) == list(alone.state_dict())
            for key, trained in found.items():
                torch.testing.assert_close(trained, alone.state_dict()[key], rtol=1e-10, atol=1e-10)


def test_a_process_that_goes_is_named_by_the_collective(tmp_path: Path) -> None:
    in_two(two_processes.deserted, tmp_path)
    said = (tmp_path / "said").read_text().splitlines()
    where = " of rank 0 of 2: "
    told = [f"c10d::allreduce_{where}", "NaN", f"c10d::_allgather_base_{where}", f"c10d::recv_{where}"]
    assert len(said) == len(told)
    for line, begin in zip(said, told, strict=True):
        assert line.startswith(begin), said


def test_layers_in_two_processes_are_as_one(tmp_path: Path) -> None:
    in_two(two_parts.work, tmp_path)


def test_arrays_of_hologram_are_carried(tmp_path: Path) -> None:
    in_two(two_processes.carried, tmp_path)
    said = r"all_reduce sum of f32 \(2,\) of rank 0 of 2: another process did not come within 0.5 s"
    assert re.fullmatch(said, (tmp_path / "said").read_text())


OWN, OTHER, APART = ("card A", ""), ("card B", ""), ("", cards.APART)


@pytest.mark.parametrize(
    ("own", "others", "added", "said"),
    [
        (OWN, [OTHER, ("card C", "")], True, ""),
        (OWN, [OTHER, OTHER], False, "ranks 1 and 2 are on one card"),
        (OWN, [OTHER, OWN], False, "ranks 0 and 2 are on one card"),
        (OWN, [OTHER, APART], False, "rank 2: no CUDA card"),
        (("", "its PyTorch was built without NCCL"), [OTHER, OWN], False, "rank 0: its PyTorch was built"),
        (APART, [OTHER, OWN], False, ""),  # it is not told: it lacks nothing
        (APART, [APART, APART], False, ""),
    ],
)
def test_processes_agree_on_nccl(
    own: Any, others: Any, added: bool, said: str, monkeypatch: pytest.MonkeyPatch, recwarn: Any
) -> None:
    """Each decides by what all have told in the store."""
    store = torch.distributed.HashStore()
    store.set_timeout(timedelta(seconds=2))
    for rank, other in enumerate(others, 1):
        store.set(f"hologram/card {rank}", "\n".join(other))
    engine: Any = lambda store, rank, size, options: (rank, size, options._timeout)  # noqa: E731, SLF001  NCCL's options have it by this name
    engine.Options = SimpleNamespace
    monkeypatch.setattr(torch.distributed, "ProcessGroupNCCL", engine, raising=False)
    group = SimpleNamespace(rank=lambda: 0, size=lambda: 3, get_group_store=lambda: store)
    made: list[Any] = []
    cards.agree(group, 5, own, lambda *given: made.append(given))
    kind = torch.distributed.ProcessGroup.BackendType.NCCL
    assert made == ([(group, torch.device("cuda"), kind, (0, 3, 5))] if added else [])
    assert said in " ".join(str(w.message) for w in recwarn)
    assert bool(recwarn) is bool(said)
