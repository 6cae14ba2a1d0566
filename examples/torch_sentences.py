"""Sentences compared by meaning, with real weights, on any GPU.

python examples/torch_sentences.py --backend webgpu prints what is most like each sentence.

The weights are WordLlama's (pip install wordllama): 32,000 vectors of a language model's tokens, 256 numbers each.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn

import hologram as hg
import hologram_torch.module  # it makes the device
from hologram.demo.gallery import run

SENTENCES = [
    "The cat is asleep on the sofa.",
    "A kitten naps in an armchair.",
    "Interest rates went up again in March.",
    "The central bank made loans dearer.",
    "Whisk the eggs before you add the flour.",
    "Beat eggs and flour to a smooth batter.",
]


class Sentences(nn.Module):
    """Sentences as the means of their tokens' vectors, of length 1."""

    def __init__(self, vectors: torch.Tensor, tokenizer: Any) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.vectors = nn.EmbeddingBag.from_pretrained(vectors, mode="mean")

    def forward(self, sentences: list[str]) -> torch.Tensor:
        """(n, 256) for n sentences."""
        tokens = [found.ids for found in self.tokenizer.encode_batch(sentences, add_special_tokens=False)]
        starts = torch.tensor([0, *(len(one) for one in tokens[:-1])]).cumsum(0)
        device = self.vectors.weight.device
        flat = torch.tensor([token for one in tokens for token in one])
        return nn.functional.normalize(self.vectors(flat.to(device), starts.to(device)))


def load(device: str = "hologram") -> Sentences:
    """The model with the weights that WordLlama's package carries."""
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise ImportError("the weights come with a package: pip install wordllama")
    root = Path(spec.origin).parent
    vectors = load_file(root / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
    tokenizer = Tokenizer.from_file(str(root / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    return Sentences(vectors.float(), tokenizer).to(device)


def main() -> None:
    hologram_torch.module.set_backend(hg.default_executor().backend)
    found = load()(SENTENCES)
    likeness = (found @ found.T).fill_diagonal_(-1.0)
    for sentence, other, share in zip(SENTENCES, likeness.argmax(1).tolist(), likeness.amax(1), strict=True):
        print(f"{sentence:45} {share.item():.2f}  {SENTENCES[other]}")


if __name__ == "__main__":
    run(main)
