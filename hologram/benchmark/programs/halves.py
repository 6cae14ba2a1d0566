"""Half precision: a layer that reads its weight once for one row, and a decoder that reads a prompt."""

from __future__ import annotations

from typing import Any

import numpy as np

from hologram.benchmark.programs.declared import Arrays, Step, program
from hologram.foundation import lazy

torch, transformers = lazy.module("torch"), lazy.module("transformers")  # which may not be installed

FEATURES = 4096
EPSILON = 2.0**-8  # of bf16


def row(random: np.random.Generator) -> Arrays:
    return (random.standard_normal((1, FEATURES), np.float32),)


def long_prompt(random: np.random.Generator) -> Arrays:
    return (random.integers(3, 1000, (1, 128)),)


@program(limit=2, inputs=row, tolerance=4 * EPSILON)
def bf16_linear(place: Any) -> Step:
    """A layer of 4096 x 4096 in bf16, one row."""
    layer = place.model(lambda: torch.nn.Linear(FEATURES, FEATURES, dtype=torch.bfloat16))
    run = place.compiled(layer)

    @torch.no_grad()
    def step(x: Any) -> Any:
        return run(place.tensor(x).to(torch.bfloat16))

    return step


@program(limit=2, inputs=long_prompt, tolerance=16 * EPSILON)
def bf16_prefill(place: Any) -> Step:
    """Llama of 4 layers of 512 in bf16, a prompt of 128 tokens."""
    config = transformers.LlamaConfig(
        hidden_size=512,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        intermediate_size=1536,
        vocab_size=1000,
    )
    model = place.model(lambda: transformers.LlamaForCausalLM(config).to(torch.bfloat16))
    run = place.compiled(model)

    @torch.no_grad()
    def step(tokens: Any) -> Any:
        return run(input_ids=place.tensor(tokens), use_cache=False).logits

    return step
