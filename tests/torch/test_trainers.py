"""Other people's training loops on the device: accelerate, and the Trainer of transformers, give what the CPU gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate")
import hologram_torch  # noqa: E402, F401
from tests.torch.test_models import transformers  # noqa: E402

DEVICES = ("cpu", "hologram")


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes a device the one that accelerate takes."""

    def choose(device: str) -> None:
        monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", device)
        accelerate.state.AcceleratorState._reset_state(True)
        torch.manual_seed(0)

    yield choose
    accelerate.state.AcceleratorState._reset_state(True)


def test_accelerate_trains(chosen: Any, tmp_path: Path) -> None:
    def losses(device: str) -> list[float]:
        chosen(device)
        accelerator = accelerate.Accelerator(gradient_accumulation_steps=2)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
        data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randint(3, (64,)))
        loader = torch.utils.data.DataLoader(data, batch_size=16)
        model, optimiser, loader = accelerator.prepare(model, optimiser, loader)
        found = []
        for _ in range(3):
            for x, wanted in loader:
                assert x.device.type == device
                with accelerator.accumulate(model):
                    loss = torch.nn.functional.cross_entropy(model(x), wanted)
                    accelerator.backward(loss)
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimiser.step()
                    optimiser.zero_grad()
                found.append(accelerator.gather_for_metrics(loss).item())
        accelerator.save_state(str(tmp_path / device))
        accelerator.load_state(str(tmp_path / device))
        return found

    theirs, ours = map(losses, DEVICES)
    assert ours == pytest.approx(theirs, rel=1e-4)


def test_the_trainer_of_transformers_trains(chosen: Any, tmp_path: Path) -> None:
    tf = transformers()

    def losses(device: str) -> list[float]:
        chosen(device)
        small = tf.GPT2Config(
            n_embd=32, n_layer=2, n_head=2, vocab_size=100, n_positions=64, bos_token_id=0, eos_token_id=0
        )
        rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 100, (32, 16))]
        arguments = tf.TrainingArguments(
            output_dir=str(tmp_path / device), max_steps=6, per_device_train_batch_size=8, logging_steps=2,
            learning_rate=1e-2, report_to=[], save_steps=6, disable_tqdm=True,
        )  # fmt: skip
        for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop"):
            setattr(small, name, 0.0)
        trainer = tf.Trainer(model=tf.GPT2LMHeadModel(small), args=arguments, train_dataset=rows)
        assert arguments.device.type == device
        trainer.train()
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    theirs, ours = map(losses, DEVICES)
    assert len(ours) == 3
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert ours[-1] < ours[0]
