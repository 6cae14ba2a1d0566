"""LoRA, DoRA, IA3 and prefix tuning of a language model: training, merging, saving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

peft: Any = pytest.importorskip("peft")
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

LIBRARY = "peft"
KINDS = {
    "lora": lambda: peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
    "dora": lambda: peft.LoraConfig(r=4, target_modules=["q_proj"], use_dora=True, task_type="CAUSAL_LM"),
    "ia3": lambda: peft.IA3Config(
        target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"], task_type="CAUSAL_LM"
    ),
    "prefix": lambda: peft.PrefixTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM"),
}


def llama() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=64, num_key_value_heads=2, **sizes))


@pytest.mark.parametrize("kind", KINDS)
def test_trains_as_on_the_host(kind: str, tmp_path: Path) -> None:
    def trained(device: str) -> tuple[list[float], Any]:
        model = llama()
        torch.manual_seed(1)
        tuned = peft.get_peft_model(model, KINDS[kind]()).to(device)
        optimiser = torch.optim.AdamW([p for p in tuned.parameters() if p.requires_grad], 1e-2)
        tokens = torch.arange(24).reshape(2, 12).to(device)
        losses = []
        for _ in range(3):
            loss = tuned(input_ids=tokens, labels=tokens).loss
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            losses.append(loss.item())
        return losses, tuned

    found, tuned = trained("hologram")
    assert found == pytest.approx(trained("cpu")[0], rel=1e-3)
    tuned.save_pretrained(tmp_path)
    loaded = peft.PeftModel.from_pretrained(llama().to("hologram"), tmp_path)
    tokens = torch.arange(12)[None].to("hologram")
    torch.testing.assert_close(
        loaded(tokens).logits.cpu(), tuned.eval()(tokens).logits.cpu(), rtol=1e-4, atol=1e-4
    )
    if kind in ("lora", "dora", "ia3"):
        merged = loaded.merge_and_unload()
        torch.testing.assert_close(
            merged(tokens).logits.cpu(), tuned(tokens).logits.cpu(), rtol=1e-3, atol=1e-3
        )
