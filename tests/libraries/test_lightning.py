"""`Trainer()` and `Fabric()` without a device, `"gpu"`, `"hologram"`; mixed precision; data parallel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pl: Any = pytest.importorskip("pytorch_lightning")
from lightning_fabric import Fabric  # noqa: E402

LIBRARY = "pytorch-lightning"
QUIET = {"enable_progress_bar": False, "logger": False, "enable_model_summary": False}


class Classifier(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 3))
        self.places: set[str] = set()

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        x, y = batch
        self.places.add(x.device.type)
        loss = torch.nn.functional.cross_entropy(self.layers(x), y)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, number: int) -> None:
        x, y = batch
        self.log("accuracy", (self.layers(x).argmax(1) == y).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 1e-2)


def batches() -> Any:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(256, 8, generator=generator)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 32)


def fitted(folder: Path, **arguments: Any) -> tuple[Classifier, Any]:
    torch.manual_seed(0)
    model = Classifier()
    trainer = pl.Trainer(max_epochs=2, default_root_dir=folder, **QUIET, **arguments)
    trainer.fit(model, batches(), batches())
    return model, trainer


@pytest.mark.parametrize("asked", [None, "auto", "gpu", "hologram"])
def test_the_trainer_is_on_the_device(asked: str | None, tmp_path: Path) -> None:
    model, trainer = fitted(tmp_path, **({} if asked is None else {"accelerator": asked}))
    host, _ = fitted(tmp_path, accelerator="cpu")
    assert model.places == {"hologram"}
    assert host.places == {"cpu"}
    assert type(trainer.accelerator).__name__ == "HologramAccelerator"
    assert trainer.strategy.root_device == torch.device("hologram", 0)
    for ours, theirs in zip(model.cpu().parameters(), host.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed", "bf16-true"])
def test_precision(precision: str, tmp_path: Path) -> None:
    model, trainer = fitted(tmp_path, precision=precision)
    assert model.places == {"hologram"}
    assert trainer.callback_metrics["accuracy"].item() > 0.6
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    assert (scaler is not None and scaler._device == "hologram") == (precision == "16-mixed")  # noqa: SLF001  the scaler's device, which PyTorch does not tell


def test_a_checkpoint_goes_on(tmp_path: Path) -> None:
    before, trainer = fitted(tmp_path)
    (path,) = tmp_path.rglob("*.ckpt")
    model = Classifier()
    resumed = pl.Trainer(max_epochs=3, default_root_dir=tmp_path, **QUIET)
    resumed.fit(model, batches(), batches(), ckpt_path=path)
    assert (trainer.global_step, resumed.global_step) == (16, 24)
    loaded = Classifier.load_from_checkpoint(path, map_location="hologram")
    assert loaded.device.type == "hologram"
    for ours, theirs in zip(loaded.cpu().parameters(), before.cpu().parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_fabric() -> None:
    fabric = Fabric()
    fabric.launch()
    model = Classifier()
    made, optimiser = fabric.setup(model.layers, model.configure_optimizers())
    losses = []
    for x, y in fabric.setup_dataloaders(batches()):
        assert x.device.type == "hologram"
        loss = torch.nn.functional.cross_entropy(made(x), y)
        optimiser.zero_grad()
        fabric.backward(loss)
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert Fabric(precision="16-mixed")._precision.device == "hologram"  # noqa: SLF001  Fabric shows its device nowhere else


@pytest.mark.parametrize(
    ("devices", "said"),
    [([3], "numbered 0 to 0 here; got 3"), ("none", "got 'none'"), (0, "devices=0"), ([0.5], r"got \[0.5\]")],
)
def test_devices_that_are_none(devices: Any, said: str) -> None:
    with pytest.raises(Exception, match=said):
        pl.Trainer(accelerator="hologram", devices=devices, **QUIET)


def test_two_processes_train_one_model(tmp_path: Path) -> None:
    """As two of the host do, which average gradients."""
    script = tmp_path / "two.py"
    script.write_text(TWO)
    command = [sys.executable, str(script), str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=root)
    assert done.returncode == 0, done.stderr[-2000:]
    ours, host = (torch.load(tmp_path / f"{name}.pt", weights_only=True) for name in ("hologram", "cpu"))
    for name, parameter in host.items():
        torch.testing.assert_close(ours[name], parameter, rtol=1e-4, atol=1e-5)


TWO = """
import sys, torch
sys.path.insert(0, ".")
from tests.libraries.test_lightning import Classifier, QUIET, batches, pl

if __name__ == "__main__":
    for accelerator in ("hologram", "cpu"):
        torch.manual_seed(0)
        model = Classifier()
        trainer = pl.Trainer(
            max_epochs=1, accelerator=accelerator, devices=2, strategy="ddp_spawn", enable_checkpointing=False, **QUIET
        )
        trainer.fit(model, batches())
        state = {name: p.detach().cpu() for name, p in model.state_dict().items()}
        torch.save(state, f"{sys.argv[1]}/{accelerator}.pt")
"""
