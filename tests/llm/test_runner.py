"""Answers: text as it comes, what ends it, what is refused, and a real model where its file is."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import hologram as hg
from hologram.cli.commands import app
from hologram.llm.gguf import GGUF
from hologram.llm.runner import Runner
from hologram.llm.sampling import Sampling, chosen
from hologram.llm.tokenizer import Stream, Tokenizer
from tests.llm import models

LLAMA = models.FAMILIES["llama"]


@pytest.fixture
def runner(tmp_path: Path, executor: hg.Executor) -> Runner:
    models.write(tmp_path / "model.gguf", LLAMA)
    return Runner(tmp_path / "model.gguf", executor)


def test_greedy_text_is_the_reference_s(runner: Runner, tmp_path: Path) -> None:
    weights = models.write(tmp_path / "again.gguf", LLAMA)
    tokens = runner.tokenizer.encode("the other heat")
    written = list(runner.tokens(tokens, limit=12))
    for at, token in enumerate(written):
        assert token == models.logits(LLAMA, weights, tokens + written[:at])[-1].argmax()
    text = "".join(runner.generate("the other heat", limit=12))
    assert text == runner.tokenizer.codec.decode(written)
    assert runner.speed.decode_tokens == len(written) > 0
    assert runner.speed.prefill_tokens == 0  # what was computed before is known
    assert 0 < runner.speed.share(1e12) < 1


def test_a_conversation_is_written_by_the_template(runner: Runner) -> None:
    messages = [{"role": "user", "content": "the heat"}]
    tokens = runner.tokenizer.conversation(messages)
    names = [runner.tokenizer.codec.id_to_token(t) for t in tokens]
    assert "".join(names) == "<s>user:\u0120the\u0120heat</s>\u010a<s>assistant:\u0120"
    assert "the" in names
    assert "".join(runner.chat(messages, limit=5)) == "".join(
        runner.generate("<s>user: the heat</s>\n<s>assistant: ", limit=5)
    )


def test_prompts_that_cannot_be_answered_are_refused(runner: Runner) -> None:
    with pytest.raises(hg.ShapeError, match="at least one token"):
        runner.generate("")
    with pytest.raises(hg.ShapeError, match=f"context of {models.CONTEXT}, got 2500 tokens"):
        runner.generate("a" * 2500)
    with pytest.raises(hg.ShapeError, match="context must be 1 to the model's 2048"):
        Runner(runner.tokenizer.model.path, runner.executor, context=4096)
    with pytest.raises(hg.ShapeError, match="one of f32, f16, i8, got 'f64'"):
        Runner(runner.tokenizer.model.path, runner.executor, cache="f64")
    with pytest.raises(hg.ShapeError, match="top_p"):
        Sampling(top_p=0.0)
    for seed in (-1, 1 << 64):
        with pytest.raises(hg.ShapeError, match=f"the seed .* got {seed}"):
            Sampling(temperature=1.0, seed=seed)
    for numbers in ({"top_k": 1.5}, {"seed": 0.5}):
        with pytest.raises(hg.ShapeError, match="must be integers"):
            Sampling(**numbers)  # pyright: ignore[reportArgumentType]
    for limit in (-3, 2.5, "3"):
        with pytest.raises(hg.ShapeError, match=f"an integer of at least 0 tokens, got {limit!r}"):
            runner.generate("a", limit=limit)  # pyright: ignore[reportArgumentType]
    for token in (-1, 10**6, 1.5):
        with pytest.raises(hg.ShapeError, match=rf"tokens from 0 to \d+, got {token}"):
            runner.tokens([1, token])  # pyright: ignore[reportArgumentType]


def test_answers_may_be_read_in_turns(runner: Runner) -> None:
    """A second answer takes the cache: the first is computed again, and goes on as it would have."""
    alone = [list(runner.tokens(prompt, limit=6)) for prompt in ([1, 2, 3], [4, 5])]
    first, second = runner.tokens([1, 2, 3], limit=6), runner.tokens([4, 5], limit=6)
    found = [[next(first)], [next(second)]]
    speed = runner.speed
    found[0] += first
    found[1] += second
    assert found == alone
    assert runner.speed is speed  # of the latest answer
    runner.forget()
    assert list(runner.tokens([4, 5], limit=6)) == alone[1]


def test_one_string_may_stop_an_answer(runner: Runner) -> None:
    text = "".join(runner.generate("the heat", limit=8))
    for stop in (text[3:5], text[0] + "\u2603"):
        assert "".join(runner.generate("the heat", limit=8, stop=stop)) == text.partition(stop)[0]


def test_a_window_wider_than_positions_shows_all(runner: Runner, tmp_path: Path) -> None:
    models.write(tmp_path / "wide.gguf", LLAMA, **{"llama.attention.sliding_window": (1 << 32) - 1})
    wide = Runner(tmp_path / "wide.gguf", runner.executor)
    assert list(wide.tokens([1, 2, 3], limit=6)) == list(runner.tokens([1, 2, 3], limit=6))


def test_an_answer_ends_with_the_context(tmp_path: Path, executor: hg.Executor) -> None:
    models.write(tmp_path / "model.gguf", LLAMA)
    runner = Runner(tmp_path / "model.gguf", executor, context=20)
    "".join(runner.generate("a" * 12))
    assert runner.speed.decode_tokens <= 8
    assert runner.past.known < 20


def test_many_sequences_leave_memory_where_it_was(runner: Runner, executor: hg.Executor) -> None:
    rng = np.random.default_rng(7)

    def answer(count: int) -> int:
        for _ in range(count):
            prompt = rng.integers(0, models.WORDS - 2, int(rng.integers(1, 120))).tolist()
            for _ in runner.tokens(
                prompt, Sampling(float(rng.integers(0, 2))), limit=int(rng.integers(0, 4))
            ):
                if rng.random() < 0.1:
                    break  # a reader who has enough
        gc.collect()
        return executor.memory_stats()["allocated"]

    before = answer(100)
    assert answer(1000 if executor.backend == "cpu" else 100) <= before + 65536


def test_a_stop_string_ends_text_wherever_tokens_part_it() -> None:
    def said(pieces: list[str], *stop: str) -> list[str]:
        stream, found = Stream(None, stop), []
        for piece in pieces:
            if not stream.ended:
                found.append(stream.write(piece))
        return [text for text in (*found, stream.held) if text]

    assert said(["one EN", "D two"], "END") == ["one "]
    assert said(["one E", "N", "X END"], "END") == ["one ", "ENX "]
    assert said(["one EN"], "END") == ["one ", "EN"]
    assert said(["a", "aab", "c"], "aab") == ["a"]
    assert said(["xyz"], "z", "y") == ["x"]
    assert said(["END"], "END", "") == []
    assert said(["one", " two"]) == ["one", " two"]


def test_random_tokens_follow_their_probabilities(executor: hg.Executor) -> None:
    logits = np.log(np.array([0.1, 0.4, 1e-9, 0.3, 0.2], np.float32))
    given = executor.tensor(np.tile(logits, (200, 1)))

    def counts(**settings: Any) -> np.ndarray:
        """Of 200 rows, every other one with the likeliest token asked for."""
        sampling, random = Sampling(**settings), np.random.default_rng(settings.get("seed", 0))
        told = np.array([sampling.row(random) for _ in range(200)], np.float32)
        count = sampling.count(5)
        found = chosen(given, executor.tensor(told) if count else None, count).to_numpy()
        if count:
            told[::2] = Sampling().row(random)
            mixed = chosen(given, executor.tensor(told), count).to_numpy()
            assert (mixed[::2] == 1).all()
            np.testing.assert_array_equal(mixed[1::2], found[1::2])
        return np.bincount(found, minlength=5) / 200

    assert np.array_equal(counts(temperature=0.0), [0, 1, 0, 0, 0])
    np.testing.assert_allclose(counts(temperature=1.0, top_k=0, top_p=1.0), np.exp(logits), atol=0.1)
    np.testing.assert_allclose(counts(temperature=1.0, top_k=2, top_p=1.0), [0, 4 / 7, 0, 3 / 7, 0], atol=0.1)
    np.testing.assert_allclose(counts(temperature=1.0, top_k=0, top_p=0.6), [0, 4 / 7, 0, 3 / 7, 0], atol=0.1)
    assert np.array_equal(counts(temperature=1.0, top_k=5, top_p=1e-6), [0, 1, 0, 0, 0])
    for temperature in (5e-324, 1e-39, 1e-20, 1e-6):
        assert np.array_equal(counts(temperature=temperature, top_p=1.0), [0, 1, 0, 0, 0])
    assert np.array_equal(counts(temperature=2.0, seed=3), counts(temperature=2.0, seed=3))


REFUSED = {
    "code": ({"tokenizer.chat_template": "{{ ''.__class__.__mro__[1].__subclasses__() }}"}, "SecurityError"),
    "endless": ({"tokenizer.chat_template": "{% for i in range(10**9) %}a{% endfor %}"}, "OverflowError"),
    "nested": (
        {
            "tokenizer.chat_template": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
        },
        "more than 1000000 steps",
    ),
    "negative": (
        {"tokenizer.chat_template": "{% set x = 'a' * -10**12 %}{{ 'a' * 10**7 }}"},
        "more than 1000000 steps",
    ),
    "power": ({"tokenizer.chat_template": "{{ 10 ** 10000000 }}"}, "more than 1000000 steps"),
    "syntax": ({"tokenizer.chat_template": "{% if %}"}, "TemplateSyntaxError"),
    "raises": ({"tokenizer.chat_template": "{{ raise_exception('no') }}"}, "ValueError: no"),
    "no template": ({"tokenizer.chat_template": None}, "no template"),
    "cuts": ({"tokenizer.ggml.pre": "unheard"}, "'unheard'"),
    "model": ({"tokenizer.ggml.model": "t5"}, "'t5'"),
    "merges": ({"tokenizer.ggml.merges": ["q q"]}, "must be tokens"),
    "tokens": ({"tokenizer.ggml.tokens": [1, 2]}, "list"),
    "types": ({"tokenizer.ggml.token_type": [1]}, "96 are needed, got 1"),
    "no types": ({"tokenizer.ggml.token_type": 7}, "ndarray is needed, got 7"),
    "named types": ({"tokenizer.ggml.token_type": ["x"] * 96}, "ndarray is needed"),
    "scores": ({"tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": ["x"] * 96}, "ndarray is needed"),
    "no scores": ({"tokenizer.ggml.model": "llama"}, "got nothing"),
    "large": ({"tokenizer.chat_template": "{{ 'a' * 10**12 }}"}, "more than 1000000 steps"),
    "end": ({"tokenizer.ggml.eos_token_id": 4000}, "below 96"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_tokenizers_and_templates_that_cannot_be_are_refused(tmp_path: Path, name: str) -> None:
    metadata, said = REFUSED[name]
    models.write(tmp_path / "model.gguf", LLAMA, **metadata)
    with pytest.raises(hg.FormatError, match=said):
        Tokenizer(GGUF(tmp_path / "model.gguf")).conversation([{"role": "user", "content": "a"}])


def test_templates_have_what_transformers_gives_them(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.content }}{% endfor %}"
        "{% if tools is not none or documents is not none %}{{ tools[0] }}{% endif %}"
    )
    named: Any = {"tokenizer.chat_template": template}
    models.write(tmp_path / "model.gguf", LLAMA, **named)
    tokenizer = Tokenizer(GGUF(tmp_path / "model.gguf"))
    said = [{"role": "system", "content": "b"}, {"role": "user", "content": "a"}]
    assert tokenizer.conversation(said) == tokenizer.encode("a")


def test_pieces_are_merged_by_their_scores(tmp_path: Path) -> None:
    tokens = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{n:02X}>" for n in range(256)),
        "\u2581",
        "a",
        "b",
        "ab",
        "\u2581ab",
        "ba",
    ]
    scores = [0.0] * 259 + [-9.0, -9.0, -9.0, -2.0, -1.0, -3.0]
    settings = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * 6,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.merges": None,
        "tokenizer.ggml.pre": None,
    }
    models.write(tmp_path / "model.gguf", LLAMA, **settings)
    tokenizer = Tokenizer(GGUF(tmp_path / "model.gguf"))
    ids = tokenizer.encode("abab\u00e9")
    assert [tokens[i] for i in ids] == ["<s>", "\u2581ab", "ab", "<0xC3>", "<0xA9>"]
    stream = tokenizer.stream()
    assert [stream.add(i) for i in ids[1:]] == ["ab", "ab", "", "\u00e9"]


def test_the_command_answers(tmp_path: Path, backend: str) -> None:
    models.write(tmp_path / "model.gguf", LLAMA)
    command = [
        "chat",
        str(tmp_path / "model.gguf"),
        "--backend",
        backend,
        "--prompt",
        "the heat",
        "--limit",
        "4",
    ]
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    assert '"decode_tokens": 4' in result.stdout
    assert "bandwidth_share" in result.stdout


def test_the_command_wants_a_prompt_that_says_something(tmp_path: Path) -> None:
    models.write(tmp_path / "model.gguf", LLAMA)
    result = CliRunner().invoke(app, ["chat", str(tmp_path / "model.gguf"), "--prompt", " "])
    assert result.exit_code == 2
    assert "must say something" in result.output


def test_a_conversation_outlives_what_cannot_be_answered(tmp_path: Path) -> None:
    models.write(tmp_path / "model.gguf", LLAMA)
    command = ["chat", str(tmp_path / "model.gguf"), "--backend", "cpu", "--limit", "2"]
    result = CliRunner().invoke(app, command, input=f"the\n{'a' * 3000}\nheat\n/exit\n")
    assert result.exit_code == 0, result.output
    assert result.output.count("answer 2 at") == 2
    assert "shorter than the context of 2048" in result.output
