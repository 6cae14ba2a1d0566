"""A model that answers: prompts in, text out as it comes, and how fast that went."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hologram.foundation.errors import ShapeError
from hologram.frontend.executor import Executor
from hologram.llm import weights
from hologram.llm.architecture import architecture
from hologram.llm.cache import CACHES, Text
from hologram.llm.decoder import MOST_PIECE, Decoder, Flight
from hologram.llm.gguf import GGUF
from hologram.llm.sampling import GREEDY, Sampling, is_integer
from hologram.llm.tokenizer import Stream, Tokenizer

Messages = Sequence[Mapping[str, str]]
MESSAGE = '[{"role": "user", "content": ...}]'  # what they look like
Stops = str | Sequence[str]


@dataclass
class Speed:
    """How fast answers were: tokens that were computed, seconds, and bytes of weights and cache that were read.

    A prompt's last token is decoded: the first of the answer comes with it.
    """

    prefill_tokens: int = 0
    prefill_s: float = 0.0
    decode_tokens: int = 0
    decode_s: float = 0.0
    decode_bytes: int = 0
    counted_s: float = 0.0  # by the clock, where what was counted last ended: of no interest to others

    def landed(self, flight: Flight) -> list[tuple[Any, int]]:
        """Texts and a token of each, once these are there; counts the time since they, or those before, began."""
        pairs = list(zip(flight.texts, flight.tokens(), strict=True))
        now = time.perf_counter()
        self.decode_s += now - max(flight.began_s, self.counted_s)
        self.decode_bytes += flight.read_bytes
        self.counted_s = now
        return pairs

    @property
    def prefill(self) -> float:
        """Tokens of prompts a second."""
        return self.prefill_tokens / self.prefill_s if self.prefill_s else 0.0

    @property
    def decode(self) -> float:
        """Tokens of answers a second."""
        return self.decode_tokens / self.decode_s if self.decode_s else 0.0

    def share(self, bandwidth: float) -> float:
        """Of a memory's bandwidth (bytes/s), how much decoding used."""
        return self.decode_bytes / self.decode_s / bandwidth if self.decode_s else 0.0


class Answer(Text):
    """What follows a prompt: up to `left` more tokens, as text."""

    def __init__(self, number: int, prompt: list[int], sampling: Sampling, left: int) -> None:
        super().__init__(prompt, sampling)
        self.number, self.left = number, left


class Runner:
    """A model of a GGUF file on a device.

    `chat` answers what was said so far, `generate` goes on from a text, `batch` does either for many prompts at once;
    all give text as it comes, and leave in `speed` how fast it went. What a prompt of the first two has in common with
    the one before is not computed again; the answer to that one, if it is read on, is. Keys and values are kept as
    `cache` says: f32, f16, or i8 with scales.

    Raises FormatError for a file that is not what it says, ShapeError for a prompt that is empty or too long.
    """

    def __init__(
        self, path: str | Path, executor: Executor, context: int | None = None, cache: str = "f32"
    ) -> None:
        if cache not in CACHES:
            raise ShapeError(f"chat: the cache must be one of {', '.join(CACHES)}, got {cache!r}")
        model = GGUF(path)
        self.architecture = architecture(model)
        self.tokenizer = Tokenizer(model)
        self.executor = executor
        trained = self.architecture.context
        if context is not None and not 1 <= context <= trained:
            raise ShapeError(f"chat: the context must be 1 to the model's {trained} tokens, got {context}")
        self.context = trained if context is None else context
        loaded = weights.load(model, self.architecture, executor)
        self.decoder = Decoder(self.architecture, loaded, executor, self.context, cache)
        self.past = Text([])
        self.speed = Speed()

    def chat(
        self, messages: Messages, sampling: Sampling = GREEDY, *, limit: int | None = None, stop: Stops = ()
    ) -> Iterator[str]:
        """The answer to messages ({"role": ..., "content": ...}), by the model's own template."""
        if isinstance(messages, str):
            raise TypeError(f"chat: messages are needed, {MESSAGE}; generate goes on from a text")
        return self._one(messages, sampling, limit, stop)

    def generate(
        self, prompt: str, sampling: Sampling = GREEDY, *, limit: int | None = None, stop: Stops = ()
    ) -> Iterator[str]:
        """How a text goes on, up to `limit` tokens or before the first of the strings `stop`."""
        return self._one(prompt, sampling, limit, stop)

    def batch(
        self,
        prompts: Sequence[str | Messages],
        sampling: Sampling | Sequence[Sampling] = GREEDY,
        *,
        limit: int | None = None,
        stop: Stops = (),
        at_once: int = 16,
    ) -> Iterator[tuple[int, str]]:
        """The answers to many prompts, texts or messages, as (a prompt's number, a piece of its answer).

        A token of up to `at_once` answers is computed together; one that ends makes room for the next.
        """
        if isinstance(prompts, (str, Mapping)):
            raise TypeError(f"batch: a list of prompts is needed, got one {type(prompts).__name__}")
        if at_once < 1:
            raise ShapeError(f"batch: at_once must be at least 1, got {at_once}")
        each = [sampling] * len(prompts) if isinstance(sampling, Sampling) else sampling
        if len(each) != len(prompts):
            raise ShapeError(f"batch: {len(prompts)} prompts need as many samplings, got {len(each)}")
        pairs = enumerate(zip(prompts, each, strict=True))
        answers = [self._answer(self._encoded(p), s, limit, number) for number, (p, s) in pairs]
        return self._written(answers, stop, at_once)

    def tokens(
        self, prompt: list[int], sampling: Sampling = GREEDY, limit: int | None = None
    ) -> Iterator[int]:
        """The tokens that follow a prompt, up to one that ends texts."""
        answer = self._resumed(self._answer(prompt, sampling, limit))
        return (token for _, token in self._decoded([answer], 1) if token is not None)

    def forget(self) -> None:
        """Has the next prompt be computed whole."""
        self.decoder.release(self.past)

    def _encoded(self, prompt: str | Messages) -> list[int]:
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt)
        if not isinstance(prompt, Sequence) or not all(isinstance(m, Mapping) for m in prompt):
            raise TypeError(
                f"chat: a prompt must be a text or messages, {MESSAGE}, got {type(prompt).__name__}"
            )
        return self.tokenizer.conversation(prompt)

    def _one(
        self, prompt: str | Messages, sampling: Sampling, limit: int | None, stop: Stops
    ) -> Iterator[str]:
        answer = self._resumed(self._answer(self._encoded(prompt), sampling, limit))
        return (piece for _, piece in self._written([answer], stop, 1))

    def _answer(
        self, prompt: list[int], sampling: Sampling, limit: int | None, number: int | None = None
    ) -> Answer:
        who = "chat: a prompt" if number is None else f"batch: prompt {number}"
        if not prompt:
            raise ShapeError(f"{who} must have at least one token, got none")
        if len(prompt) >= self.context:
            raise ShapeError(
                f"{who} must be shorter than the context of {self.context}, got {len(prompt)} tokens"
            )
        words = self.tokenizer.words
        strange = next((t for t in prompt if not is_integer(t) or not 0 <= t < words), None)
        if strange is not None:
            raise ShapeError(f"{who} must have tokens from 0 to {words - 1}, got {strange!r}")
        if limit is not None and not (is_integer(limit) and limit >= 0):
            raise ShapeError(
                f"chat: an answer's limit must be an integer of at least 0 tokens, got {limit!r}"
            )
        room = self.context - len(prompt)
        return Answer(number or 0, prompt, sampling, room if limit is None else min(room, limit))

    def _resumed(self, answer: Answer) -> Answer:
        """An answer that takes over what is computed of the text before."""
        self.decoder.resume(answer, self.past)
        self.past = answer
        return answer

    def _written(self, answers: list[Answer], stop: Stops, at_once: int) -> Iterator[tuple[int, str]]:
        """The text of answers as it comes, up to the strings that end it."""
        streams: dict[int, Stream] = {}
        for answer, token in self._decoded(answers, at_once):
            stream = streams.setdefault(answer.number, self.tokenizer.stream(stop))
            piece = streams.pop(answer.number).held if token is None else stream.add(token)
            answer.left = 0 if stream.ended else answer.left
            if piece:
                yield answer.number, piece

    def _decoded(self, answers: Sequence[Answer], at_once: int) -> Iterator[tuple[Answer, int | None]]:
        """The tokens of answers, and None behind each; those that wait take the places of those that ended.

        While the host reads a token of each, the device computes the next: of an answer that then ends, for nothing.
        """
        waiting, active, self.speed = deque(answers), list[Answer](), (speed := Speed())
        flight: Flight | None = None
        try:
            while waiting or active:
                active += [waiting.popleft() for _ in range(min(len(waiting), at_once - len(active)))]
                flown = [answer for answer in active if flight and answer in flight.texts]
                ready = self._prefilled([answer for answer in active if answer not in flown], speed)
                # Those whose last token is not the one that lands, and that nobody took what is computed from.
                ready += [a for a in flown if a.left > 1 and a.known == len(a.tokens)]
                landing, flight = flight, self.decoder.launched(ready, flight) if ready else None
                if not self.decoder.ahead:
                    landing, flight = flight, None
                for answer, token in speed.landed(landing) if landing else ():
                    if answer not in active:
                        continue
                    if token in self.tokenizer.ends:
                        answer.left = 0
                    if answer.left:
                        answer.left -= 1
                        answer.tokens.append(token)
                        speed.decode_tokens += 1
                        yield answer, token
                    if not answer.left:
                        active.remove(answer)
                        self._release(answer)
                        yield answer, None
        finally:
            for answer in active:
                self._release(answer)

    def _prefilled(self, answers: Sequence[Answer], speed: Speed) -> list[Answer]:
        """Computes a piece of the prompts that are not yet, or several short ones; gives the answers that are due."""
        began, room = time.perf_counter(), MOST_PIECE
        for answer in answers:
            while room > 0 and (computed := self.decoder.piece(answer)):
                room -= computed
        if room < MOST_PIECE:
            self.executor.synchronize()
            speed.prefill_tokens += MOST_PIECE - room
            speed.counted_s = time.perf_counter()
            speed.prefill_s += speed.counted_s - began
        return [answer for answer in answers if answer.known == len(answer.tokens) - 1]

    def _release(self, answer: Answer) -> None:
        answer.known = min(answer.known, len(answer.tokens))  # what was computed for nothing
        if answer is not self.past:
            self.decoder.release(answer)
