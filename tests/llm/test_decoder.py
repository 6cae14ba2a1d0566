"""Decoders of every family against NumPy's float64, in pieces and a token at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest

import hologram as hg
from hologram.llm.cache import BLOCK, CACHES, Pool, Text
from hologram.llm.decoder import mixture
from hologram.llm.runner import Runner
from tests.llm import models

TEXT = [5, 90, 17, 3, 3, 64, 91, 33, 8, 72, 11, 50, 2, 41, 77, 29, 60, 13, 5, 19]
# Products with packed weights may round activations to integers of 8 bits on some devices.
BOUND, PACKED_BOUND = 2e-4, 6e-2


def opened(tmp_path: Path, executor: hg.Executor, name: str, cache: str = "f32") -> tuple[Runner, np.ndarray]:
    """A runner, and the logits of TEXT."""
    family = models.FAMILIES[name]
    weights = models.write(tmp_path / "model.gguf", family)
    runner = Runner(tmp_path / "model.gguf", executor, cache=cache)
    return runner, models.logits(family, weights, TEXT)


def logits_behind(runner: Runner, texts: list[Text]) -> np.ndarray:
    """The logits (texts, words) behind the last tokens of some texts, computed together."""
    for text in texts:
        while runner.decoder.piece(text):
            pass
    runner.decoder.next(texts)
    assert runner.decoder.logits is not None
    return runner.decoder.logits.to_numpy()[: len(texts)]


CACHED = [(name, cache) for name in ("smollm", "gemma2", "packed") for cache in CACHES if cache != "f32"]


@pytest.mark.parametrize(("name", "cache"), [*((name, "f32") for name in models.FAMILIES), *CACHED])
def test_logits_are_the_reference_s(tmp_path: Path, executor: hg.Executor, name: str, cache: str) -> None:
    """Of texts of several lengths together, and then of a token more of each."""
    runner, wanted = opened(tmp_path, executor, name, cache)
    bound = BOUND if models.FAMILIES[name].kind == "F32" else PACKED_BOUND
    bound = max(bound, {"f32": 0.0, "f16": 5e-3, "i8": 0.3}[cache])
    lengths = (len(TEXT) - 3, 1, 7)
    texts = [Text(TEXT[:length]) for length in lengths]
    for more in range(3):
        found = logits_behind(runner, texts)
        np.testing.assert_allclose(found, wanted[[n + more - 1 for n in lengths]], atol=bound)
        for text in texts:
            text.tokens.append(TEXT[len(text.tokens)])


def test_a_prompt_in_pieces_and_a_cache_that_grows(tmp_path: Path, executor: hg.Executor) -> None:
    family = models.FAMILIES["llama"]
    weights = models.write(tmp_path / "model.gguf", family)
    decoder = (runner := Runner(tmp_path / "model.gguf", executor)).decoder
    (pool,) = decoder.pools
    words = np.random.default_rng(1).integers(0, models.WORDS - 2, 700).tolist()
    wanted = models.logits(family, weights, words)
    text, other = Text(words[:201]), Text(words[:90])
    assert decoder.piece(text) == 200
    assert pool.blocks == 4
    assert decoder.piece(other) == 89
    assert pool.blocks == 8
    text.tokens = words[:]
    assert (decoder.piece(text), decoder.piece(text)) == (499, 0)
    assert pool.blocks == 16
    np.testing.assert_allclose(logits_behind(runner, [text, other]), wanted[[699, 89]], atol=BOUND)
    assert (len(text.held[pool].blocks), len(other.held[pool].blocks), len(pool.free)) == (11, 2, 3)
    decoder.release(text)
    assert sorted([*pool.free, *other.held[pool].blocks]) == list(range(16))
    text.tokens = words[:600]  # in blocks that held others
    np.testing.assert_allclose(logits_behind(runner, [text])[0], wanted[599], atol=BOUND)


def test_an_answer_outgrows_the_cache(tmp_path: Path, executor: hg.Executor) -> None:
    family = models.FAMILIES["llama"]
    weights = models.write(tmp_path / "model.gguf", family)
    runner = Runner(tmp_path / "model.gguf", executor)
    runner.tokenizer.ends = frozenset()
    text = np.random.default_rng(2).integers(0, models.WORDS - 2, 236).tolist()
    written = list(runner.tokens(text, limit=30))
    assert [pool.blocks * BLOCK for pool in runner.decoder.pools] == [512]
    wanted = models.logits(family, weights, text + written)[len(text) - 1 : -1]
    assert all(logits[token] >= logits.max() - BOUND for token, logits in zip(written, wanted, strict=True))


@pytest.mark.parametrize(
    ("name", "window"), [("mistral", 5), ("mistral", 64), ("mistral", 130), ("gemma2", 70)]
)
def test_blocks_behind_a_window_go_back(
    name: str, window: int, tmp_path: Path, executor: hg.Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts beside each other, one of a prompt in two pieces; tokens are those of a cache that gives nothing back."""
    family = replace(models.FAMILIES[name], window=window)
    models.write(tmp_path / "model.gguf", family)
    rng = np.random.default_rng(window)
    prompts = [rng.integers(0, models.WORDS - 2, n).tolist() for n in (600, 3, 190)]

    def written(most: dict[int | None, int]) -> list[list[int]]:
        decoder = Runner(tmp_path / "model.gguf", executor).decoder
        texts = [Text(prompt) for prompt in prompts]
        for text in texts:
            while decoder.piece(text):
                pass
        for _ in range(150):
            for text, token in zip(texts, decoder.next(texts), strict=True):
                text.tokens.append(token)
            for pool in decoder.pools:
                held = [block for text in texts for block in text.held[pool].blocks]
                assert sorted([*held, *pool.free]) == list(range(pool.blocks))
                for text in texts:
                    bound = most.get(pool.window, -(-text.known // BLOCK))
                    assert len(text.held[pool].blocks) <= bound
        return [text.tokens for text in texts]

    found = written({window: -(-(window - 1) // BLOCK) + 1})
    with monkeypatch.context() as patched:
        patched.setattr(Pool, "behind", lambda pool, known: 0)
        assert found == written({})


def test_a_text_goes_on_from_another_as_far_as_its_window_is_still_there(
    tmp_path: Path, executor: hg.Executor
) -> None:
    family = replace(models.FAMILIES["mistral"], window=70)
    weights = models.write(tmp_path / "model.gguf", family)
    runner = Runner(tmp_path / "model.gguf", executor)
    runner.tokenizer.ends = frozenset()
    words = np.random.default_rng(4).integers(0, models.WORDS - 2, 300).tolist()
    for length, computed in ((300, 299), (290, 0), (200, 199), (210, 9)):
        written = list(runner.tokens(words[:length], limit=3))
        assert runner.speed.prefill_tokens == computed
        wanted = models.logits(family, weights, words[:length] + written)[length - 1 : -1]
        assert all(
            logits[token] >= logits.max() - BOUND for token, logits in zip(written, wanted, strict=True)
        )


@pytest.mark.parametrize("rows", [1, 16])
def test_a_token_takes_few_launches(rows: int, tmp_path: Path, executor: hg.Executor) -> None:
    family = replace(models.FAMILIES["packed"], heads=3, key_heads=1, size=32, rotated=32)
    models.write(tmp_path / "model.gguf", family)
    runner = Runner(tmp_path / "model.gguf", executor)
    flight = runner.decoder.launched([Text(TEXT[:1]) for _ in range(rows)])
    assert flight is not None
    tiled = 6 if rows > 1 else 0  # products of more rows are tiles with an epilogue of their own
    layer, beside = (10, 8) if executor.backend == "cpu" else (8 + tiled, 6)
    assert flight.step.captured.launches <= models.LAYERS * layer + beside


def test_a_token_of_experts_takes_few_launches(tmp_path: Path, executor: hg.Executor) -> None:
    """A product for gates and what they open, one for what comes down; five more choose experts and add up."""
    family = replace(models.FAMILIES["packed_experts"], heads=3, key_heads=1, size=32, rotated=32)
    models.write(tmp_path / "model.gguf", family)
    runner = Runner(tmp_path / "model.gguf", executor)
    flight = runner.decoder.launched([Text(TEXT[:1])])
    assert flight is not None
    layer, beside = (15, 7) if executor.backend == "cpu" else (14, 6)
    assert flight.step.captured.launches <= models.LAYERS * layer + beside


@pytest.mark.parametrize("n", [1, 9])
@pytest.mark.parametrize("gelu", [False, True])
@pytest.mark.parametrize("kinds", [("F32", "F32"), ("Q8_0", "Q8_0"), ("Q8_0", "Q5_0")])
def test_experts_whatever_their_matrices_are(
    n: int, gelu: bool, kinds: tuple[str, str], tmp_path: Path, executor: hg.Executor
) -> None:
    """Gates and what they open in one matrix or two, packed or floats."""
    family = replace(models.FAMILIES["qwen2moe"], gelu=gelu, shared=False)
    weights = models.write(tmp_path / "model.gguf", replace(family, layers=1))
    runner = Runner(tmp_path / "model.gguf", executor)
    own = {name[6:]: weight for name, weight in weights.items() if name.startswith("blk.0.ffn_")}
    placed = {}
    for name, kind in zip(("gate", "up", "down"), (*kinds, kinds[0]), strict=True):
        rows = own[f"ffn_{name}_exps.weight"].reshape(-1, own[f"ffn_{name}_exps.weight"].shape[-1])
        placed[name] = executor.tensor(rows)
        if kind != "F32":
            blocks = gguf.quantize(rows, gguf.GGMLQuantizationType[kind])
            placed[name] = hg.Packed.from_gguf(blocks.reshape(-1), kind, rows.shape, executor)
            rows = gguf.dequantize(blocks, gguf.GGMLQuantizationType[kind])
        own[f"ffn_{name}_exps.weight"] = rows.reshape(own[f"ffn_{name}_exps.weight"].shape)
    pair = [placed["gate"], placed["up"]]
    if kinds[0] == kinds[1]:
        pair = [hg.concat(pair) if kinds[0] == "F32" else hg.Packed.concatenate(pair)]
    block = {
        "router": (executor.tensor(own["ffn_gate_inp.weight"]),),
        "gate_up_experts": tuple(pair),
        "down_experts": (placed["down"],),
    }
    x = np.random.default_rng(3).normal(0, 1, (n, family.width))
    a = replace(runner.architecture, gelu=gelu)
    found = mixture(a, executor.tensor(x.astype(np.float32)), block).to_numpy()
    own = {name: weight.astype(np.float64) for name, weight in own.items()}
    np.testing.assert_allclose(found, models.experts(family, own, x), atol=1e-3)


def test_nothing_is_traced_again_from_token_to_token(tmp_path: Path, executor: hg.Executor) -> None:
    runner, _ = opened(tmp_path, executor, "llama")
    written = runner.tokens(TEXT, limit=9)
    next(written)
    next(written)
    before, logits = executor.preparation_stats(), runner.decoder.logits
    assert len(list(written)) == 7
    assert executor.preparation_stats() == before
    assert runner.decoder.logits is logits  # of the step that was captured
