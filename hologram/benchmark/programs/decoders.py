"""Language models of transformers with random weights: a token at a time, in caches of both kinds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.benchmark.programs.declared import Arrays, Program, Step, program
from hologram.foundation import lazy

# Which may not be installed.
torch, transformers = lazy.module("torch"), lazy.module("transformers")
if TYPE_CHECKING:
    from hologram.benchmark.programs import networks
else:
    networks = lazy.module("hologram.benchmark.programs.networks")

WORDS = 1000
LAYERS, WIDTH, HEADS = 24, 112, 4
CACHED = 64  # tokens that a static cache has room for
PROMPT, WRITTEN = 8, 16  # tokens of `generate`

SIZES: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 4 * WIDTH,
    "vocab_size": WORDS,
    "max_position_embeddings": 512,
}


def _llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=2, **SIZES))


def _gpt2() -> Any:
    config = transformers.GPT2Config(
        n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, vocab_size=WORDS, n_positions=512
    )
    return transformers.GPT2LMHeadModel(config)


def _gemma() -> Any:
    config = transformers.GemmaConfig(num_key_value_heads=1, head_dim=WIDTH // HEADS, **SIZES)
    return transformers.GemmaForCausalLM(config)


def _qwen() -> Any:
    config = transformers.Qwen3Config(num_key_value_heads=2, head_dim=WIDTH // HEADS, **SIZES)
    return transformers.Qwen3ForCausalLM(config)


FAMILIES: dict[str, Callable[[], Any]] = {"llama": _llama, "gpt2": _gpt2, "gemma": _gemma, "qwen": _qwen}


def token(random: np.random.Generator) -> Arrays:
    return (random.integers(3, WORDS, (1, 1)),)


def prompt(random: np.random.Generator) -> Arrays:
    return (random.integers(3, WORDS, (1, PROMPT)),)


def _static(make: Callable[[], Any], place: Any) -> Step:
    """The scores of the next token, its keys and values kept in memory of a fixed size."""
    model = place.model(make)
    cache = transformers.StaticCache(config=model.config, max_cache_len=CACHED)
    model.forward = place.compiled(model.forward)
    held = 0

    @torch.no_grad()
    def step(token: Any) -> Any:
        nonlocal held
        if held == CACHED:
            cache.reset()
            held = 0
        at = place.tensor(np.full((1, 1), held))
        held += 1
        return model(place.tensor(token), past_key_values=cache, position_ids=at, use_cache=True).logits

    return step


def _generate(make: Callable[[], Any], place: Any) -> Step:
    """A text after a prompt by `generate`, whose cache grows."""
    model = place.model(make)
    model.forward = place.compiled(model.forward)
    how = {"max_new_tokens": WRITTEN, "min_new_tokens": WRITTEN, "do_sample": False, "pad_token_id": 0}

    def step(tokens: Any) -> Any:
        given = place.tensor(tokens)
        return model.generate(given, attention_mask=torch.ones_like(given), **how)

    return step


def _decoders() -> tuple[Program, ...]:
    programs = []
    for family, make in FAMILIES.items():
        size = f"{LAYERS} layers of {WIDTH}, a token"
        static, generate = partial(_static, make), partial(_generate, make)
        programs.append(Program(f"{family}_static", f"{size}, static cache", static, token, 1.5))
        programs.append(Program(f"{family}_generate", f"{size}, growing cache", generate, prompt, 2, WRITTEN))
    return tuple(programs)


DECODERS = _decoders()


@program(limit=2, inputs=prompt, parts=WRITTEN)
def t5_generate(place: Any) -> Step:
    """T5 of 6 and 6 layers of 64, a token."""
    config = transformers.T5Config(
        d_model=64, d_kv=16, d_ff=256, num_layers=6, num_heads=4, vocab_size=WORDS, decoder_start_token_id=0
    )
    return _generate(lambda: transformers.T5ForConditionalGeneration(config), place)


def _text(random: np.random.Generator) -> Arrays:
    return (random.integers(0, 50257, (1, 128)),)


@program(limit=1.5, inputs=_text)
def gpt2_forward(place: Any) -> Step:
    """A model of GPT-2's size (124 M numbers), 128 tokens."""
    run = place.compiled(place.model(lambda: networks.Transformer(networks.GPT2)))

    @torch.no_grad()
    def step(tokens: Any) -> Any:
        return run(place.tensor(tokens))[0, -1]

    return step
