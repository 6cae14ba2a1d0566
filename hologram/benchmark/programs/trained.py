"""Training steps of models: forward, backward and an optimiser's step, on another batch each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.benchmark.programs.declared import Array, Arrays, Step, program
from hologram.foundation import lazy

# Which may not be installed.
torch, transformers = lazy.module("torch"), lazy.module("transformers")
if TYPE_CHECKING:
    from hologram.benchmark.programs import networks
else:
    networks = lazy.module("hologram.benchmark.programs.networks")

CLASSES = 10
NODES, EDGES = 256, 1024
SHORTEST, LONGEST = 8, 128  # batches of texts
SMALL: dict[str, Any] = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 256}


def step_of(place: Any, make: Callable[[], Any], optimiser: str = "AdamW") -> Step:
    """A step of training a module that gives the loss of its arguments."""
    model = place.model(make, trained=True)
    optimise = getattr(torch.optim, optimiser)(model.parameters(), lr=1e-3)
    loss_of = place.compiled(model)

    def step(*arrays: Array) -> Any:
        optimise.zero_grad()
        loss = loss_of(*map(place.tensor, arrays))
        loss.backward()
        optimise.step()
        return loss

    return step


def normal(random: np.random.Generator, *shape: int) -> Array:
    return random.standard_normal(shape, np.float32)


def sequences(random: np.random.Generator) -> Arrays:
    return normal(random, 8, 40, 64), random.integers(0, CLASSES, 8)


def images(random: np.random.Generator) -> Arrays:
    return normal(random, 4, 3, 32, 32), random.integers(0, CLASSES, 4)


def texts(random: np.random.Generator) -> Arrays:
    length = random.integers(SHORTEST, LONGEST, endpoint=True)
    return random.integers(1, 1000, (4, length)), random.integers(0, 2, 4)


def graph(random: np.random.Generator) -> Arrays:
    nodes = normal(random, NODES, 16), random.integers(0, CLASSES, NODES)
    return nodes[0], random.integers(0, NODES, (2, EDGES)), nodes[1]


def noisy(random: np.random.Generator) -> Arrays:
    return normal(random, 2, 4, 16, 16), random.random(2, np.float32), normal(random, 2, 4, 16, 16)


def tokens(random: np.random.Generator) -> Arrays:
    return (random.integers(0, 1000, (2, 16)),)


def letters(random: np.random.Generator) -> Arrays:
    return random.integers(0, 256, (8, 128)), random.integers(0, 256, (8, 128))


def rates(random: np.random.Generator) -> Arrays:
    return (random.uniform(1e-4, 1e-3, 1),)


@program(limit=4, inputs=sequences)
def lstm_step(place: Any) -> Step:
    """Two layers of LSTM of 64, 8 x 40, training step."""
    return step_of(place, lambda: networks.Recurrent(torch.nn.LSTM, CLASSES))


@program(limit=4, inputs=sequences)
def gru_step(place: Any) -> Step:
    """Two layers of GRU of 64, 8 x 40, training step."""
    return step_of(place, lambda: networks.Recurrent(torch.nn.GRU, CLASSES))


@program(limit=2, inputs=texts)
def bert_step(place: Any) -> Step:
    """BERT of 3 layers, 4 texts of another length each time (8 to 128), training step."""
    config = transformers.BertConfig(
        num_hidden_layers=3,
        vocab_size=1000,
        num_labels=2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        **SMALL,
    )
    return step_of(place, lambda: networks.Labelled(transformers.BertForSequenceClassification(config)))


@program(limit=1.5, inputs=images)
def vit_step(place: Any) -> Step:
    """ViT of 6 layers, batch 4, training step."""
    config = transformers.ViTConfig(
        num_hidden_layers=6, image_size=32, patch_size=4, num_labels=CLASSES, **SMALL
    )
    return step_of(place, lambda: networks.Labelled(transformers.ViTForImageClassification(config)))


@program(limit=1.5, inputs=images)
def cnn_step(place: Any) -> Step:
    """Four convolutions with batch norm, batch 4, training step."""
    return step_of(place, lambda: networks.convolutions(CLASSES), "SGD")


@program(limit=1.5, inputs=graph)
def gnn_step(place: Any) -> Step:
    """Three rounds of messages along 1,024 edges of 256 nodes, training step."""
    return step_of(place, lambda: networks.Graph(CLASSES))


@program(limit=1.5, inputs=noisy)
def unet_step(place: Any) -> Step:
    """Blocks of a diffusion UNet with a time and attention, 16 x 16, training step."""
    return step_of(place, lambda: networks.Denoiser())


@program(limit=2, inputs=tokens)
def moe_step(place: Any) -> Step:
    """Mixtral of 2 layers and 4 experts, 2 x 16 tokens, training step."""
    config = transformers.MixtralConfig(
        num_hidden_layers=2,
        num_key_value_heads=2,
        vocab_size=1000,
        num_local_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=128,
        **SMALL,
    )
    return step_of(place, lambda: networks.Language(transformers.MixtralForCausalLM(config)))


@program(limit=1.5, inputs=letters)
def gpt_step(place: Any) -> Step:
    """A language model of 4 layers of 256, 8 x 128 tokens, training step."""
    return step_of(place, lambda: networks.Transformer(networks.GPT))


def _adamw(place: Any, **forms: bool) -> Step:
    """An optimiser's step alone, at another rate each time: 52 tensors, 3.3 million numbers."""
    model = place.model(lambda: networks.Transformer(networks.GPT), trained=True)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimise = torch.optim.AdamW(model.parameters(), **forms)
    last = next(model.parameters())

    def step(rate: Array) -> Any:
        optimise.param_groups[0]["lr"] = float(rate[0])
        optimise.step()
        return last[0, 0].clone()

    return step


@program(limit=1.5, inputs=rates)
def adamw_step(place: Any) -> Step:
    """AdamW over the 52 tensors of a language model, 3.3 million numbers, as it is."""
    return _adamw(place)


@program(limit=2, inputs=rates)
def adamw_fused_step(place: Any) -> Step:
    """AdamW over the 52 tensors of a language model, 3.3 million numbers, fused."""
    return _adamw(place, fused=True)
