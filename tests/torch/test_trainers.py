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
    """Makes a device the one that accelerate takes: the host where it is told so, else the one that is in use."""

    def choose(device: str) -> None:
        if device == "hologram":
            torch.ones(1, device=device)
            monkeypatch.delenv("ACCELERATE_TORCH_DEVICE", raising=False)
        else:
            monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", device)
        accelerate.state.AcceleratorState._reset_state(True)  # noqa: SLF001  accelerate forgets its state in no other way
        torch.manual_seed(0)

    yield choose
    accelerate.state.AcceleratorState._reset_state(True)  # noqa: SLF001  accelerate forgets its state in no other way


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


@pytest.mark.parametrize(("precision", "near"), [("no", 1e-3), ("bf16", 2e-2), ("fp16", 2e-2)])
def test_the_trainer_of_transformers_trains(precision: str, near: float, chosen: Any, tmp_path: Path) -> None:
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
            **({precision: True} if precision != "no" and device == "hologram" else {}),
        )  # fmt: skip
        for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop"):
            setattr(small, name, 0.0)
        trainer = tf.Trainer(model=tf.GPT2LMHeadModel(small), args=arguments, train_dataset=rows)
        assert arguments.device.type == device
        trainer.train()
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    theirs, ours = map(losses, DEVICES)
    assert len(ours) == 3
    assert ours == pytest.approx(theirs, rel=near)
    assert ours[-1] < ours[0]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_accelerate_mixes_precision(precision: str, chosen: Any) -> None:
    chosen("hologram")
    accelerator = accelerate.Accelerator(mixed_precision=precision)
    layer = torch.nn.Linear(8, 8)
    model = torch.nn.Sequential(layer)  # whose own result accelerate makes f32
    model, optimiser = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    kinds: list[Any] = []
    layer.register_forward_hook(lambda module, given, result: kinds.append(result.dtype))
    before = layer.weight.detach().clone()
    accelerator.backward(model(torch.ones(4, 8, device=accelerator.device)).square().mean())
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    assert kinds == [{"bf16": torch.bfloat16, "fp16": torch.float16}[precision]]
    assert (accelerator.scaler is not None) == (precision == "fp16")
    assert not torch.equal(before, layer.weight)


def small(folder: Path) -> Any:
    """A model of two layers on the host, saved."""
    tf = transformers()
    torch.manual_seed(0)
    sizes = tf.GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=100, n_positions=64, bos_token_id=0)
    model = tf.GPT2LMHeadModel(sizes).eval()
    model.save_pretrained(folder)
    return model


def test_models_are_put_where_there_is_memory(chosen: Any, tmp_path: Path) -> None:
    tf = transformers()
    chosen("hologram")
    host, tokens = small(tmp_path), torch.tensor([[1, 2, 3]])
    there = tf.GPT2LMHeadModel.from_pretrained(tmp_path, device_map="auto")
    assert there.device == torch.device("hologram", 0)
    memory = {0: 100_000, "cpu": "1GiB"}
    apart = tf.GPT2LMHeadModel.from_pretrained(tmp_path, device_map="auto", max_memory=memory)
    assert set(apart.hf_device_map.values()) == {0, "cpu"}
    for model in (there, apart):
        torch.testing.assert_close(model(tokens.to("hologram")).logits.cpu(), host(tokens).logits)


def test_pipelines_are_on_the_device(chosen: Any, tmp_path: Path) -> None:
    base = pytest.importorskip("transformers.pipelines.base")
    chosen("hologram")

    class Logits(base.Pipeline):
        def _sanitize_parameters(self, **kwargs: Any) -> Any:
            return {}, {}, {}

        def preprocess(self, x: Any) -> Any:
            return {"input_ids": torch.tensor([x])}

        def _forward(self, x: Any) -> Any:
            assert x["input_ids"].device == self.model.device == self.device
            return self.model(**x)

        def postprocess(self, x: Any) -> Any:
            return x.logits

    model = small(tmp_path)
    wanted = model(torch.tensor([[1, 2, 3]])).logits
    for device, kind in ((None, "hologram"), (0, "hologram"), ("cpu", "cpu")):
        run = Logits(model=model, task="logits", device=device)
        assert run.device.type == kind
        torch.testing.assert_close(run((1, 2, 3)), wanted)


@pytest.mark.slow
def test_generate_compiles_where_it_is_asked_to() -> None:
    tf = transformers()
    torch.manual_seed(0)
    config = tf.GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=50, n_positions=32)
    host = tf.GPT2LMHeadModel(config).eval()
    tokens = torch.randint(1, 50, (2, 5))
    how = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "cache_implementation": "static"}
    wanted = host.generate(tokens, **how)
    model = host.to("hologram")
    assert torch.equal(model.generate(tokens.to("hologram"), **how).cpu(), wanted)
    assert not hasattr(model, "_compiled_call")  # private: PyTorch tells in no other way
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    found = model.generate(tokens.to("hologram"), **how, compile_config=tf.CompileConfig())
    assert torch.equal(found.cpu(), wanted)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
