"""Models of transformers and torchvision, of random weights: on the device they give what they give on the CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401
from tests.torch.boxes import torchvision  # noqa: E402

Made = tuple[Any, dict[str, Any]]


def transformers() -> Any:
    pytest.importorskip("transformers")
    try:
        torchvision()  # which transformers imports where it is installed
    except pytest.skip.Exception:
        pass
    return pytest.importorskip("transformers")


SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


def bert() -> Made:
    tf = transformers()
    mask = torch.tensor([[1] * 9, [1] * 6 + [0] * 3])
    model = tf.BertModel(tf.BertConfig(vocab_size=100, **SMALL))
    return model, {"input_ids": torch.randint(1, 100, (2, 9)), "attention_mask": mask}


def gpt2() -> Made:
    tf = transformers()
    model = tf.GPT2LMHeadModel(tf.GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=100, n_positions=64))
    return model, {"input_ids": torch.randint(1, 100, (2, 9))}


def llama() -> Made:
    tf = transformers()
    model = tf.LlamaForCausalLM(tf.LlamaConfig(num_key_value_heads=2, vocab_size=100, **SMALL))
    return model, {"input_ids": torch.randint(1, 100, (2, 9))}


def of_experts(name: str, **settings: Any) -> Callable[[], Made]:
    def make() -> Made:
        tf = transformers()
        config = getattr(tf, f"{name}Config")(vocab_size=100, num_key_value_heads=2, **SMALL, **settings)
        model = getattr(tf, f"{name}ForCausalLM")(config)
        return model, {"input_ids": torch.randint(1, 100, (2, 9)), "output_router_logits": True}

    make.__name__ = name.lower()
    return make


EXPERTS = (
    of_experts("Mixtral", num_local_experts=4),
    of_experts("Qwen2Moe", num_experts=4, moe_intermediate_size=16, shared_expert_intermediate_size=24),
    of_experts("Olmoe", num_experts=6, num_experts_per_tok=3),
)


def vit() -> Made:
    tf = transformers()
    model = tf.ViTForImageClassification(tf.ViTConfig(image_size=32, patch_size=8, num_labels=5, **SMALL))
    return model, {"pixel_values": torch.randn(2, 3, 32, 32)}


def resnet() -> Made:
    # Of two images one rectifier would be so near 0 that rounding decides its side, and with it all gradients.
    return torchvision().models.resnet18(num_classes=10), {"x": torch.randn(3, 3, 64, 64)}


MODELS = (bert, gpt2, llama, *EXPERTS, vit, resnet)
WRITERS = (gpt2, llama, EXPERTS[0])


def first(result: Any) -> Any:
    return result if isinstance(result, torch.Tensor) else result[0]


def both(make: Callable[[], Made]) -> tuple[Made, Made]:
    torch.manual_seed(0)
    model, inputs = make()
    model.eval()
    there = {name: x.to("hologram") if isinstance(x, torch.Tensor) else x for name, x in inputs.items()}
    return (model, inputs), (copy.deepcopy(model).to("hologram"), there)


@pytest.mark.parametrize("make", MODELS)
def test_results_are_those_of_the_cpu(make: Callable[[], Made]) -> None:
    (host, data), (model, there) = both(make)
    with torch.no_grad():
        torch.testing.assert_close(first(model(**there)).cpu(), first(host(**data)), atol=1e-4, rtol=0)


@pytest.mark.parametrize("make", MODELS)
def test_gradients_are_those_of_the_cpu(make: Callable[[], Made]) -> None:
    (host, data), (model, there) = both(make)
    if make is resnet:
        host.train()
        model.train()
    for here, inputs in ((host, data), (model, there)):
        first(here(**inputs)).square().mean().backward()
    largest = max(p.grad.abs().max().item() for p in host.parameters() if p.grad is not None)
    for (name, theirs), ours in zip(host.named_parameters(), model.parameters(), strict=True):
        if theirs.grad is not None:
            near = {"atol": 1e-5 * max(largest, 1.0), "rtol": 1e-3}
            torch.testing.assert_close(
                ours.grad.cpu(), theirs.grad, **near, msg=lambda m, n=name: f"{n}: {m}"
            )


@pytest.mark.parametrize("make", WRITERS)
def test_texts_are_those_of_the_cpu(make: Callable[[], Made]) -> None:
    (host, data), (model, there) = both(make)
    how = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
    assert torch.equal(model.generate(**there, **how).cpu(), host.generate(**data, **how))


@pytest.mark.parametrize("make", [bert, resnet])
def test_compiled_results_are_those_of_the_cpu(make: Callable[[], Made]) -> None:
    torch.compiler.reset()
    (host, data), (model, there) = both(make)
    with torch.no_grad():
        found = first(torch.compile(model, backend="hologram")(**there)).cpu()
        torch.testing.assert_close(found, first(host(**data)), atol=1e-4, rtol=0)
