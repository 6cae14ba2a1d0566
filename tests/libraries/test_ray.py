"""Ray Train: two workers, of which one dies; all are started anew from the checkpoint"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

LIBRARY = "ray"
STEPS, ROWS = 4, 8
ray: Any = pytest.importorskip("ray")


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).double()


def step(trained: Any, optimiser: Any, x: torch.Tensor) -> None:
    optimiser.zero_grad()
    trained(x).square().mean().backward()
    optimiser.step()


def rows(k: int) -> torch.Tensor:
    return torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(k), dtype=torch.float64)


def loop(config: dict[str, Any]) -> None:
    """As Ray's documentation has it, with the accelerator's device."""
    import ray.train as train

    folder, rank = Path(config["folder"]), train.get_context().get_world_rank()
    device = torch.accelerator.current_accelerator()
    assert device is not None
    assert device.type == "hologram"
    own = model().to(device)
    trained = train.torch.prepare_model(own, move_to_device=False)
    optimiser = torch.optim.AdamW(own.parameters(), lr=0.1)
    first = 0
    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as place:
            kept = torch.load(Path(place) / "state.pt", map_location=device)
        own.load_state_dict(kept["model"])
        optimiser.load_state_dict(kept["optimiser"])
        first = kept["step"] + 1
        (folder / f"resumed-{rank}").write_text(str(first))
    for k in range(first, STEPS):
        if k == 2 and rank == 1 and not (folder / "died").exists():
            (folder / "died").touch()
            time.sleep(10)  # Ray keeps a checkpoint once it has asked all workers for what they report
            os._exit(1)
        step(trained, optimiser, rows(k)[rank::2].to(device))
        place = folder / f"step-{k}"
        if rank == 0:
            place.mkdir(exist_ok=True)
            state = {"model": own.state_dict(), "optimiser": optimiser.state_dict(), "step": k}
            torch.save(state, place / "state.pt")
        train.report({"step": k}, checkpoint=train.Checkpoint(place) if rank == 0 else None)


def test_a_worker_dies_and_training_goes_on(tmp_path: Path) -> None:
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    root = str(Path(__file__).parents[2])
    variables = {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    variables |= {"HOLOGRAM_BACKEND": os.environ["HOLOGRAM_BACKEND"], "HOLOGRAM_CPU_THREADS": "1"}
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not see this file
    ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": variables})
    try:
        trainer = TorchTrainer(
            loop,
            train_loop_config={"folder": str(tmp_path)},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(
                storage_path=str(tmp_path / "ray"), failure_config=FailureConfig(max_failures=1)
            ),
        )
        assert trainer.fit().metrics["step"] == STEPS - 1
    finally:
        ray.shutdown()
    assert (tmp_path / "resumed-0").exists()
    assert (tmp_path / "resumed-1").exists()
    host = model()
    optimiser = torch.optim.AdamW(host.parameters(), lr=0.1)
    for k in range(STEPS):
        step(host, optimiser, rows(k))
    found = torch.load(tmp_path / f"step-{STEPS - 1}" / "state.pt", map_location="cpu")["model"]
    for name, wanted in host.state_dict().items():
        torch.testing.assert_close(found[name], wanted, rtol=1e-10, atol=1e-10)
