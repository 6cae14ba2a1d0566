"""transformers' models from GGUF files that stay packed: the logits of the dequantised ones, family by family."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
gguf = pytest.importorskip("gguf")
from tests.llm.test_runner import smollm  # noqa: E402
from tests.torch.test_models import transformers  # noqa: E402

library = transformers()
from hologram_torch.gguf import HologramGgufConfig  # noqa: E402
from hologram_torch.packed import PackedEmbedding, PackedLinear, PackedWeight  # noqa: E402

SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
         "vocab_size": 96, "num_key_value_heads": 2, "pad_token_id": 0}  # fmt: skip
Written = Callable[[str, np.ndarray], np.ndarray]  # by a file's name: a weight as llama.cpp writes it


def as_it_is(name: str, x: np.ndarray) -> np.ndarray:
    return x


def neighbours(name: str, x: np.ndarray) -> np.ndarray:
    """Llama's: what is rotated together lies side by side."""
    heads = 4 if "attn_q" in name else 2 if "attn_k" in name else 0
    return x.reshape(heads, 2, -1, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape) if heads else x


def above_one(name: str, x: np.ndarray) -> np.ndarray:
    """Gemma's norms."""
    return x + 1 if "norm" in name else x


def two_axes(name: str, x: np.ndarray) -> np.ndarray:
    """LFM2's convolutions."""
    return x[:, 0] if "conv.weight" in name else x


def turned(name: str, x: np.ndarray) -> np.ndarray:
    """GPT-2's linears."""
    linear = "attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight"
    return x.T if any(word in name for word in linear) else x


FAMILIES: dict[str, tuple[str, Callable[[], Any], Written]] = {
    "llama": ("llama", lambda: library.LlamaConfig(**SMALL), neighbours),
    "tied": ("llama", lambda: library.LlamaConfig(**SMALL, tie_word_embeddings=True), neighbours),
    "qwen2": ("qwen2", lambda: library.Qwen2Config(**SMALL), as_it_is),
    "qwen3moe": ("qwen3moe", lambda: library.Qwen3MoeConfig(
        **SMALL, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, head_dim=16), as_it_is),
    "gemma2": ("gemma2", lambda: library.Gemma2Config(**SMALL, head_dim=16, sliding_window=8), above_one),
    "phi3": ("phi3", lambda: library.Phi3Config(**SMALL), as_it_is),
    "lfm2": ("lfm2", lambda: library.Lfm2Config(
        **SMALL, block_auto_adjust_ff_dim=False, layer_types=["conv", "full_attention"]), two_axes),
    "gpt2": ("gpt2", lambda: library.GPT2Config(
        vocab_size=96, n_embd=64, n_layer=2, n_head=4, n_positions=64), turned),
}  # fmt: skip


def names_of(model: Any, architecture: str) -> dict[str, tuple[str, int | None]]:
    """The file's names of a model's weights: the model's own, and which half of it they are."""
    from transformers import modeling_gguf_pytorch_utils as theirs

    processor = theirs.TENSOR_PROCESSORS.get(architecture, theirs.TensorProcessor)(
        config=model.config.to_dict()
    )
    known = theirs.get_gguf_hf_weights_map(model, processor)
    halves = {"ffn_gate_exps": 0, "ffn_up_exps": 1}
    return {
        f"{n}.weight" if n.endswith("_exps") else n: (
            own,
            next((k for w, k in halves.items() if w in n), None),
        )
        for n, own in known.items()
    }


def write(path: Path, model: Any, architecture: str, written: Written, kind: str) -> None:
    """Writes a model's weights to a file, matrices in blocks, and leaves it with what these say."""
    writer = gguf.GGUFWriter(path, architecture)
    state, own = model.state_dict(), gguf.GGMLQuantizationType[kind]
    tied = set(model.all_tied_weights_keys) if hasattr(model, "all_tied_weights_keys") else set()
    for name, (theirs, half) in names_of(model, architecture).items():
        if theirs in tied or theirs not in state:
            continue
        part = state[theirs] if half is None else state[theirs].chunk(2, dim=1)[half]
        x = np.ascontiguousarray(written(name, part.numpy()))
        if x.ndim < 2 or x.shape[-1] % 32:
            writer.add_tensor(name, x)
            continue
        blocks = gguf.quantize(x, own)
        writer.add_tensor(name, blocks, raw_dtype=own)
        rounded = gguf.dequantize(blocks, own).reshape(x.shape)
        # What was done to a weight, its rows' own numbers undo.
        order = np.argsort(written(name, np.arange(x.size).reshape(part.shape)).reshape(-1))
        part.copy_(torch.from_numpy(rounded.reshape(-1)[order].reshape(part.shape)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def both(folder: Path, family: str, kind: str, **settings: Any) -> tuple[Any, Any]:
    """A model with what its file says, and the file's with packed weights."""
    architecture, config, written = FAMILIES[family]
    torch.manual_seed(0)
    model = library.AutoModelForCausalLM.from_config(config()).eval()
    write(folder / "model.gguf", model, architecture, written, kind)
    loaded = type(model).from_pretrained(
        str(folder),
        gguf_file="model.gguf",
        config=model.config,
        quantization_config=HologramGgufConfig(),
        **settings,
    )
    return model, loaded


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0"])
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_the_dequantised_model(family: str, kind: str, tmp_path: Path) -> None:
    model, packed = both(tmp_path, family, kind, device_map="hologram")
    tokens = torch.randint(0, 96, (2, 7))
    with torch.no_grad():
        wanted, found = model(tokens).logits, packed(tokens.to("hologram")).logits
    assert found.device.type == "hologram"
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-3, atol=1e-3)
    matrices = [n for n, x in model.named_modules() if type(x).__name__ in ("Linear", "Conv1D")]
    kept = [n for n, x in packed.named_modules() if isinstance(x, PackedWeight)]
    assert set(matrices) <= set(kept)
    assert isinstance(packed.get_input_embeddings(), PackedEmbedding)


def test_a_model_moves_there_later(tmp_path: Path) -> None:
    model, packed = both(tmp_path, "tied", "Q4_0")
    assert packed.device.type == "cpu"
    assert packed.lm_head.codes is packed.model.embed_tokens.codes
    tokens = torch.randint(0, 96, (2, 7))
    for device in ("cpu", "hologram"):
        found = packed.to(device)(tokens.to(device)).logits
        torch.testing.assert_close(found.detach().cpu(), model(tokens).logits.detach(), rtol=1e-3, atol=1e-3)


def test_halves(tmp_path: Path) -> None:
    model, packed = both(tmp_path, "llama", "Q8_0", device_map="hologram", dtype=torch.bfloat16)
    tokens = torch.randint(0, 96, (1, 7))
    found = packed(tokens.to("hologram")).logits
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(
        found.detach().cpu().float(), model(tokens).logits.detach(), rtol=0.05, atol=0.05
    )


def test_inputs_have_gradients(tmp_path: Path) -> None:
    model, packed = both(tmp_path, "qwen2", "Q8_0", device_map="hologram")
    slopes = []
    x = torch.randn(1, 5, 64)
    for each, device in ((model, "cpu"), (packed, "hologram")):
        given = x.detach().to(device).requires_grad_()
        each(inputs_embeds=given).logits.square().sum().backward()
        slopes.append(given.grad.cpu())
    torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-2, atol=1e-2 * float(slopes[0].abs().max()))


def test_several_devices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lies on one device"):
        both(tmp_path, "llama", "Q8_0", device_map={"model": "hologram", "lm_head": "cpu"})


@pytest.mark.skipif(smollm() is None, reason="SmolLM2's file is not here")
def test_a_real_model_writes_what_it_writes_dequantised() -> None:
    file = smollm()
    assert file is not None
    folder = str(file.parent)
    packed = library.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file.name, quantization_config=HologramGgufConfig(), device_map="hologram"
    )
    tokenizer = library.AutoTokenizer.from_pretrained(folder, gguf_file=file.name)
    model = library.AutoModelForCausalLM.from_pretrained(folder, gguf_file=file.name, dtype=torch.float32)
    assert isinstance(packed.lm_head, PackedLinear)
    held = sum(x.nbytes for x in packed.buffers())
    assert held < 0.3 * sum(x.nbytes for x in model.parameters())
    for prompt in ("The capital of France is", "Once upon a time", "def fib(n):"):
        tokens = tokenizer(prompt, return_tensors="pt").input_ids
        with torch.no_grad():
            error = packed(tokens.to("hologram")).logits.cpu() - model(tokens).logits
        assert float(error.abs().max()) < 0.05
        written = [
            each.generate(tokens.to(each.device), max_new_tokens=48, do_sample=False).cpu()
            for each in (packed, model)
        ]
        assert written[0].equal(written[1]), prompt
