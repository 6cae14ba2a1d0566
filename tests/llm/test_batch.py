"""Many prompts answered together: as one by one, whatever their lengths, and in the memory of a few."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.llm.runner import Runner
from hologram.llm.sampling import Sampling
from tests.llm import models

PROMPTS = ["the heat", "t", "other than the " * 9, "he", "a b c d e f", "then there", "oh", "the the the"]


def opened(tmp_path: Path, executor: hg.Executor, name: str = "llama", **settings: Any) -> Runner:
    models.write(tmp_path / "model.gguf", models.FAMILIES[name])
    return Runner(tmp_path / "model.gguf", executor, **settings)


def joined(pieces: Any, count: int) -> list[str]:
    answers = [""] * count
    for number, piece in pieces:
        answers[number] += piece
    return answers


# Where products round activations, rows beside one another may be rounded otherwise than one.
@pytest.mark.parametrize("name", [n for n, f in models.FAMILIES.items() if f.kind == "F32"])
def test_answers_are_those_of_one_by_one(name: str, tmp_path: Path, executor: hg.Executor) -> None:
    runner = opened(tmp_path, executor, name)
    alone = ["".join(runner.generate(prompt, limit=9)) for prompt in PROMPTS]
    assert len(set(alone)) > 3
    for at_once in (3, 16):
        assert joined(runner.batch(PROMPTS, limit=9, at_once=at_once), len(PROMPTS)) == alone


def test_each_has_its_own_sampling_and_stop_strings_end_it(tmp_path: Path, executor: hg.Executor) -> None:
    runner = opened(tmp_path, executor)
    each = [Sampling(float(k % 3), top_k=(40, 0, 3)[k % 3], seed=k) for k in range(len(PROMPTS))]
    alone = ["".join(runner.generate(p, s, limit=12)) for p, s in zip(PROMPTS, each, strict=True)]
    assert joined(runner.batch(PROMPTS, each, limit=12, at_once=5), len(PROMPTS)) == alone
    stop = alone[0][3:5]
    ended = [text.split(stop)[0] for text in alone]
    assert joined(runner.batch(PROMPTS, each, limit=12, stop=[stop]), len(PROMPTS)) == ended


def test_messages_are_prompts_too(tmp_path: Path, executor: hg.Executor) -> None:
    runner = opened(tmp_path, executor)
    messages = [{"role": "user", "content": "the heat"}]
    alone = ["".join(runner.chat(messages, limit=5)), "".join(runner.generate("oh", limit=5))]
    assert joined(runner.batch([messages, "oh"], limit=5), 2) == alone
    assert joined(runner.batch([]), 0) == []


def test_answers_end_with_the_context_and_long_prompts_go_in_pieces(
    tmp_path: Path, executor: hg.Executor
) -> None:
    runner = opened(tmp_path, executor, context=700)
    runner.tokenizer.ends = frozenset()
    prompts = ["a" * 690, "bc", "d" * 699, "a" * 600]
    lengths = [0] * len(prompts)
    for number, piece in runner.batch(prompts, limit=20, at_once=3):
        lengths[number] += len(runner.tokenizer.encode(piece))
    assert lengths[0] <= 10
    assert lengths[2] <= 1
    assert runner.speed.decode_tokens == 10 + 20 + 1 + 20
    assert runner.speed.prefill_tokens == sum(map(len, prompts)) - len(prompts)
    (pool,) = runner.decoder.pools
    assert len(pool.free) == pool.blocks
    assert 0 < runner.speed.share(1e12) < 1


def test_prompts_that_cannot_be_answered_are_named(tmp_path: Path, executor: hg.Executor) -> None:
    runner = opened(tmp_path, executor)
    with pytest.raises(hg.ShapeError, match="batch: prompt 1 must have at least one token, got none"):
        runner.batch(["the", "", "heat"])
    with pytest.raises(hg.ShapeError, match="prompt 2 must be shorter than the context of 2048, got 2500"):
        runner.batch(["the", "heat", "a" * 2500])
    with pytest.raises(hg.ShapeError, match="2 prompts need as many samplings, got 1"):
        runner.batch(["the", "heat"], [Sampling()])
    with pytest.raises(hg.ShapeError, match="at_once must be at least 1, got 0"):
        runner.batch(["the"], at_once=0)


def test_a_conversation_goes_on_beside_a_batch(tmp_path: Path, executor: hg.Executor) -> None:
    """Who leaves a batch early gives its blocks back; a text before it keeps its own."""
    runner = opened(tmp_path, executor)
    whole = "".join(runner.generate("the heat", limit=8))
    batch = runner.batch(PROMPTS, limit=30, at_once=4)
    next(batch)
    begun = runner.generate("the heat", limit=8)
    mixed = next(begun) + next(batch)[1][:0] + "".join(begun)
    assert mixed == whole
    batch.close()  # type: ignore[attr-defined]
    (pool,) = runner.decoder.pools
    assert sorted([*pool.free, *runner.past.held[pool].blocks]) == list(range(pool.blocks))


def test_many_sequences_leave_memory_where_it_was(tmp_path: Path, executor: hg.Executor) -> None:
    runner, rng = opened(tmp_path, executor), np.random.default_rng(7)

    def answer(count: int) -> int:
        prompts = ["".join(rng.choice(list("the other"), int(rng.integers(1, 200)))) for _ in range(count)]
        samplings = [Sampling(float(rng.integers(0, 2)), seed=k) for k in range(count)]
        for _ in runner.batch(prompts, samplings, limit=4):
            if rng.random() < 0.01:
                break  # a reader who has enough
        for number, _ in runner.batch(prompts, samplings, limit=4):
            assert number < count
        gc.collect()
        return executor.memory_stats()["allocated"]

    before = answer(100)
    assert answer(1000 if executor.backend == "cpu" else 100) <= before + 65536


def test_what_is_no_list_of_prompts_is_refused(tmp_path: Path, executor: hg.Executor) -> None:
    """A text is a sequence of texts to Python, and a message one of its keys."""
    runner = opened(tmp_path, executor)
    message: Any = {"role": "user", "content": "oh"}
    with pytest.raises(TypeError, match="batch: a list of prompts is needed, got one str"):
        runner.batch("the heat")
    with pytest.raises(TypeError, match="batch: a list of prompts is needed, got one dict"):
        runner.batch(message)
    odd: Any = (message, 3, [3])
    for prompt in odd:
        with pytest.raises(TypeError, match="a prompt must be a text or messages"):
            runner.batch([prompt])
    text: Any = "the heat"
    with pytest.raises(TypeError, match="chat: messages are needed"):
        runner.chat(text)
