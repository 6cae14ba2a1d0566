"""`device_map="auto"` in parts, offload to the host and to files, `load_checkpoint_and_dispatch`; on WebGPU too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("accelerate")
LIBRARY = "accelerate"
ROOT = Path(__file__).parents[2]

BIG = """
import sys, torch, transformers, accelerate
folder = sys.argv[1]
torch.manual_seed(0)
sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4}
sizes["vocab_size"] = 96
Llama = transformers.LlamaForCausalLM
Llama(transformers.LlamaConfig(**sizes, pad_token_id=0)).save_pretrained(folder, max_shard_size="200KB")
host = Llama.from_pretrained(folder).eval()
tokens = torch.tensor([[5, 6, 7, 8]])
wanted, text = host(tokens).logits, host.generate(tokens, max_new_tokens=6, do_sample=False)
device = torch.device("hologram", 0)
assert torch.accelerator.current_accelerator().type == "hologram"

def check(model, places):
    found = getattr(model, "hf_device_map", {"": model.device.index})  # it has none where there is one place
    assert set(map(str, found.values())) == places, model.hf_device_map
    found = model(tokens.to(device)).logits
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-3, atol=1e-4)
    assert model.generate(tokens.to(device), max_new_tokens=6, do_sample=False).tolist() == text.tolist()

def empty():
    with accelerate.init_empty_weights():
        model = Llama(transformers.LlamaConfig(**sizes, pad_token_id=0))
    return model.eval()

room, all_of_it = 250_000, {0: "1GiB", "cpu": "1GiB"}
check(Llama.from_pretrained(folder, device_map="auto", max_memory=all_of_it), {"0"})
check(Llama.from_pretrained(folder, device_map="auto", max_memory={0: room, "cpu": "1GiB"}), {"0", "cpu"})
offloaded = {"device_map": "auto", "offload_folder": folder + "/offloaded"}
check(Llama.from_pretrained(folder, max_memory={0: 2 * room, "cpu": 2 * room}, **offloaded), {"0", "cpu", "disk"})
within = {"max_memory": {0: room, "cpu": "1GiB"}, "no_split_module_classes": ["LlamaDecoderLayer"]}
check(accelerate.load_checkpoint_and_dispatch(empty(), folder, device_map="auto", **within), {"0", "cpu"})
for model in (
    accelerate.cpu_offload(Llama.from_pretrained(folder), execution_device=device),
    accelerate.disk_offload(Llama.from_pretrained(folder), folder + "/disk", execution_device=device),
):
    found = model(tokens.to(device)).logits
    assert found.device == device
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-3, atol=1e-4)
model, hook = accelerate.cpu_offload_with_hook(Llama.from_pretrained(folder), execution_device=device)
torch.testing.assert_close(model(tokens).logits.cpu(), wanted, rtol=1e-3, atol=1e-4)
assert model.device == device
hook.offload()
assert model.device.type == "cpu"
"""

LAUNCHED = """
import torch, accelerate
accelerator = accelerate.Accelerator()
assert (accelerator.device.type, accelerator.num_processes) == ("hologram", 2), accelerator.state
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimiser = torch.optim.AdamW(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.arange(32.0).reshape(8, 4), torch.ones(8, 2))
model, optimiser, loader = accelerator.prepare(model, optimiser, torch.utils.data.DataLoader(data, batch_size=2))
for x, y in loader:
    optimiser.zero_grad()
    accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
    optimiser.step()
both = accelerator.gather(next(model.parameters()).detach().flatten()[None])
assert torch.equal(both[0], both[1])
number = torch.tensor([accelerator.process_index], device=accelerator.device)
assert accelerator.gather_for_metrics(number).tolist() == [0, 1]
"""


def run(command: list[str], backend: str) -> None:
    environment = {**os.environ, "HOLOGRAM_BACKEND": backend, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("where", ["cpu", "webgpu"])
def test_models_that_do_not_fit(tmp_path: Path, where: str) -> None:
    run([sys.executable, "-c", BIG, str(tmp_path)], where)


def test_launch(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LAUNCHED)
    launch = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--multi_gpu",
        "--num_processes",
        "2",
        "--num_machines",
        "1",
    ]
    run([*launch, "--mixed_precision", "no", "--dynamo_backend", "no", str(script)], "cpu")
