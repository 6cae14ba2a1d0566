"""A small GPT learns to write the manual of Python, character by character, with PyTorch on any GPU.

python examples/torch_gpt.py --backend webgpu prints the loss as it falls, and what the model writes in the end.
"""

from __future__ import annotations

from pydoc_data.topics import topics

import torch
from rich.progress import track
from torch import nn
from torch.nn import functional

import hologram as hg
import hologram_torch.module  # it makes the device
from hologram.demo.gallery import run

CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))


class Block(nn.Module):
    """Attention to what came before, then two layers of neurons, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.three, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.neurons = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.three(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.neurons(self.between(x))


class GPT(nn.Module):
    """Characters to scores of the next one, at every place (Radford et al. 2018)."""

    def __init__(self, places: int, width: int, heads: int, blocks: int) -> None:
        super().__init__()
        self.places = places
        self.character, self.place = nn.Embedding(len(CHARACTERS), width), nn.Embedding(places, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, len(CHARACTERS))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.character(text) + self.place.weight[: text.shape[1]]
        return self.scores(self.norm(self.blocks(x)))

    @torch.no_grad()
    def write(self, start: str, count: int, temperature: float = 0.7) -> str:
        """Goes on with a text, a character at a time."""
        text = encoded(start).to(self.place.weight.device)[None]
        for _ in range(count):
            scores = self(text[:, -self.places :])[:, -1] / temperature
            text = torch.cat([text, torch.multinomial(scores.softmax(-1), 1)], dim=1)
        return "".join(CHARACTERS[k] for k in text[0].tolist())


def encoded(text: str) -> torch.Tensor:
    return torch.tensor([CHARACTERS.index(c) for c in text if c in CHARACTERS])


def train(model: GPT, text: torch.Tensor, steps: int, batch: int) -> list[float]:
    """Losses of AdamW's steps on passages chosen at random."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    compiled = torch.compile(model, backend="hologram")
    losses = []
    for _ in track(range(steps), "training", transient=True):
        starts = torch.randint(len(text) - model.places - 1, (batch,)).tolist()
        passages = torch.stack([text[k : k + model.places + 1] for k in starts])
        optimiser.zero_grad()
        loss = functional.cross_entropy(compiled(passages[:, :-1]).flatten(0, 1), passages[:, 1:].flatten())
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


def main(
    steps: int = 400, batch: int = 16, places: int = 64, width: int = 128, blocks: int = 3, write: int = 300
) -> None:
    hologram_torch.module.set_backend(hg.default_executor().backend)
    torch.manual_seed(0)
    model = GPT(places, width, width // 32, blocks).to("hologram")
    losses = train(model, encoded("".join(topics.values())).to("hologram"), steps, batch)
    tenth = max(1, steps // 10)
    for k in range(0, steps, tenth):
        part = losses[k : k + tenth]
        print(f"from step {k:4}: loss {sum(part) / len(part):.3f}")
    print(model.write("The statement ", write))


if __name__ == "__main__":
    run(main)
