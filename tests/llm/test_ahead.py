"""A token is launched before the host has read the one before: nothing of that shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hologram as hg
from hologram.llm.decoder import Decoder, Flight
from hologram.llm.runner import Runner
from hologram.llm.sampling import Sampling
from hologram.runtime.memory.reading import fetched
from tests.llm import models

PROMPTS = ["the heat", "t", "other than the " * 9, "he"]


@pytest.fixture
def pair(tmp_path: Path, executor: hg.Executor) -> list[Runner]:
    """A runner that waits for each token, and one that does not, whatever the device does by itself."""
    models.write(tmp_path / "model.gguf", models.FAMILIES["mistral"])
    made = [Runner(tmp_path / "model.gguf", executor) for _ in range(2)]
    for ahead, runner in enumerate(made):
        runner.decoder.ahead = bool(ahead)
    return made


def joined(runner: Runner, each: list[Sampling], stop: list[str]) -> list[str]:
    answers = [""] * len(PROMPTS)
    for number, piece in runner.batch(PROMPTS, each, limit=12, stop=stop, at_once=2):
        answers[number] += piece
    return answers


def test_the_same_seeds_give_the_same_texts(pair: list[Runner]) -> None:
    """In a batch whose texts end by their limit, by a string, and by tokens that end texts."""
    each = [Sampling(float(k % 3), top_k=(40, 0, 3)[k % 3], seed=k) for k in range(len(PROMPTS))]
    whole = joined(pair[0], each, [])
    for runner in pair:
        runner.tokenizer.ends |= {runner.tokenizer.encode(whole[1][-1])[-1]}
    waited, ahead = (joined(runner, each, [whole[0][3:5]]) for runner in pair)
    assert ahead == waited
    assert waited != whole
    (pool,) = pair[1].decoder.pools
    assert len(pool.free) == pool.blocks


def test_a_text_goes_on_where_it_ended_and_not_a_token_further(pair: list[Runner]) -> None:
    """An answer is left, stopped, or at its end when a token more of it is on its way."""
    for stop in ("", "e", "t"):
        found = []
        for runner in pair:
            runner.forget()
            first = runner.generate("the heat", Sampling(1.0, seed=5), limit=20, stop=stop)
            text = next(first, "") if not stop else "".join(first)
            more = [next(runner.generate(f"the heat{text}", limit=6)), *first]
            more += runner.generate(f"the heat{text} the", limit=6)
            found.append((text, more, runner.past.known, runner.speed.prefill_tokens))
        assert found[0] == found[1]


def test_a_token_is_launched_before_the_last_is_read(
    pair: list[Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    launched, tokens = Decoder.launched, Flight.tokens
    monkeypatch.setattr(Decoder, "launched", lambda *args: seen.append("launched") or launched(*args))
    monkeypatch.setattr(Flight, "tokens", lambda flight: seen.append("read") or tokens(flight))
    for runner in pair:
        runner.tokenizer.ends = frozenset()
        assert len(list(runner.tokens([1, 2, 3], limit=4))) == 4
    turn = ["launched", "read"]
    assert seen == turn * 4 + ["launched", *turn * 3, "read"]


def test_a_buffer_is_fetched_as_it_is_whatever_comes_behind(executor: hg.Executor) -> None:
    x = executor.tensor(np.arange(5, dtype=np.int32))
    reads = []
    for turn in range(40):
        reads.append(fetched(x.buffer))
        x.buffer.from_numpy(np.full(5, turn, np.int32))
    del reads[::2]  # which are never read
    for turn, read in zip(range(0, 40, 2), reversed(reads), strict=True):
        np.testing.assert_array_equal(read(), 38 - turn)
    large = executor.tensor(np.arange(5000, dtype=np.float32).reshape(50, 100))
    read = fetched(large.buffer)
    large.buffer.fill(0.0)
    np.testing.assert_array_equal(read(), np.arange(5000).reshape(50, 100))
