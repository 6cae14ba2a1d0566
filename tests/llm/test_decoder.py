"""Decoders of every family against NumPy's float64, in pieces and a token at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest

import hologram as hg
from hologram.llm.decoder import mixture
from hologram.llm.runner import Runner
from tests.llm import models

TEXT = [5, 90, 17, 3, 3, 64, 91, 33, 8, 72, 11, 50, 2, 41, 77, 29, 60, 13, 5, 19]
# Products with packed weights may round activations to integers of 8 bits on some devices.
BOUND, PACKED_BOUND = 2e-4, 6e-2


def opened(tmp_path: Path, executor: hg.Executor, name: str) -> tuple[Runner, np.ndarray]:
    """A runner, and the logits of TEXT."""
    family = models.FAMILIES[name]
    weights = models.write(tmp_path / "model.gguf", family)
    return Runner(tmp_path / "model.gguf", executor), models.logits(family, weights, TEXT)


@pytest.mark.parametrize("name", models.FAMILIES)
def test_logits_are_the_reference_s(tmp_path: Path, executor: hg.Executor, name: str) -> None:
    runner, wanted = opened(tmp_path, executor, name)
    bound = BOUND if models.FAMILIES[name].kind == "F32" else PACKED_BOUND
    for length in (len(TEXT) - 3, 1):  # a prompt, and one of a token
        logits, _ = runner.prefill(TEXT[:length])
        np.testing.assert_allclose(logits.to_numpy(), wanted[length - 1], atol=bound)
    runner.prefill(TEXT[:-3])
    for at in range(len(TEXT) - 3, len(TEXT)):  # a token at a time
        token = executor.tensor(np.array(TEXT[at : at + 1], np.int32))
        logits = runner.decoder.next(token)
        np.testing.assert_allclose(logits.to_numpy(), wanted[at], atol=bound)


def test_a_prompt_in_pieces_and_a_cache_that_grows(tmp_path: Path, executor: hg.Executor) -> None:
    family = models.FAMILIES["mistral"]
    weights = models.write(tmp_path / "model.gguf", family)
    runner = Runner(tmp_path / "model.gguf", executor)
    text = np.random.default_rng(1).integers(0, models.WORDS - 2, 700).tolist()
    wanted = models.logits(family, weights, text)
    assert runner.prefill(text[:200])[1] == 200
    assert runner.decoder.capacity == 256
    logits, computed = runner.prefill(text)  # 512 and a rest of 188 with what is known, 500
    assert computed == 500
    assert runner.decoder.capacity == 1024
    np.testing.assert_allclose(logits.to_numpy(), wanted[-1], atol=BOUND)
    logits, computed = runner.prefill(text[:300])  # a shorter one: what lay behind is not seen
    assert computed == 1
    np.testing.assert_allclose(logits.to_numpy(), wanted[299], atol=BOUND)


def test_an_answer_outgrows_the_cache(tmp_path: Path, executor: hg.Executor) -> None:
    family = models.FAMILIES["mistral"]
    weights = models.write(tmp_path / "model.gguf", family)
    runner = Runner(tmp_path / "model.gguf", executor)
    runner.tokenizer.ends = frozenset()
    text = np.random.default_rng(2).integers(0, models.WORDS - 2, 236).tolist()
    written = list(runner.tokens(text, limit=30))
    assert runner.decoder.capacity == 512
    wanted = models.logits(family, weights, text + written)[len(text) - 1 : -1]
    assert all(logits[token] >= logits.max() - BOUND for token, logits in zip(written, wanted, strict=True))


def test_a_token_takes_few_launches(tmp_path: Path, executor: hg.Executor) -> None:
    family = replace(models.FAMILIES["packed"], heads=3, key_heads=1, size=32, rotated=32)
    models.write(tmp_path / "model.gguf", family)
    runner = Runner(tmp_path / "model.gguf", executor)
    runner.prefill(TEXT)
    layer, rest = runner.decoder.launches()
    assert layer <= (10 if executor.backend == "cpu" else 8)
    assert rest <= 6
    runner.decoder.next(executor.tensor(np.zeros(1, np.int32)))
    captured = runner.decoder._captured
    assert captured is not None
    assert captured.launches <= models.LAYERS * layer + rest + 1  # and the place is copied


def test_a_token_of_experts_takes_few_launches(tmp_path: Path, executor: hg.Executor) -> None:
    """A product for gates and what they open, one for what comes down; seven more choose experts and add up."""
    family = replace(models.FAMILIES["packed_experts"], heads=3, key_heads=1, size=32, rotated=32)
    models.write(tmp_path / "model.gguf", family)
    runner = Runner(tmp_path / "model.gguf", executor)
    runner.prefill(TEXT)
    layer, _ = runner.decoder.launches()
    assert layer <= (17 if executor.backend == "cpu" else 16)


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
    traced = len(runner.decoder._block._compiled)
    assert traced == 2  # the prompt's and a token's
    assert len(list(written)) == 7
    assert len(runner.decoder._block._compiled) == traced
