"""A model that answers: prompts in, text out as it comes, and how fast that went."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hologram.foundation.errors import HologramError, ShapeError
from hologram.foundation.frozen import frozen
from hologram.frontend.executor import Executor
from hologram.frontend.tensor import Tensor
from hologram.llm import weights
from hologram.llm.architecture import architecture
from hologram.llm.decoder import Decoder
from hologram.llm.gguf import GGUF
from hologram.llm.sampling import Sampler, Sampling
from hologram.llm.tokenizer import Tokenizer

LEAST_PIECE, MOST_PIECE = 16, 512  # tokens of a prompt that are computed together: powers of two between
COPIED_BYTES = 64 << 20  # to measure the memory's bandwidth
GREEDY = Sampling()


@frozen
class Speed:
    """How fast an answer was: tokens that were computed, seconds, and bytes that a token read of weights and cache."""

    prefill_tokens: int
    prefill_s: float
    decode_tokens: int
    decode_s: float
    token_bytes: int

    @property
    def prefill(self) -> float:
        """Tokens of the prompt a second."""
        return self.prefill_tokens / self.prefill_s if self.prefill_s else 0.0

    @property
    def decode(self) -> float:
        """Tokens of the answer a second."""
        return self.decode_tokens / self.decode_s if self.decode_s else 0.0

    def share(self, bandwidth: float) -> float:
        """Of a memory's bandwidth (bytes/s), how much decoding used."""
        return self.decode * self.token_bytes / bandwidth


class Runner:
    """A model of a GGUF file on a device.

    `chat` answers what was said so far, `generate` goes on from a text; both give text as it comes, and leave in
    `speed` how fast it went. What a prompt has in common with the one before is not computed again. There is one answer
    at a time: another one ends the one before.

    Raises FormatError for a file that is not what it says, ShapeError for a prompt that is empty or too long.
    """

    def __init__(self, path: str | Path, executor: Executor, context: int | None = None) -> None:
        model = GGUF(path)
        self.architecture = architecture(model)
        self.tokenizer = Tokenizer(model)
        self.executor = executor
        trained = self.architecture.context
        if context is not None and not 1 <= context <= trained:
            raise ShapeError(f"chat: the context must be 1 to the model's {trained} tokens, got {context}")
        self.context = trained if context is None else context
        loaded = weights.load(model, self.architecture, executor)
        self.decoder = Decoder(self.architecture, loaded, executor, self.context)
        self.past: list[int] = []  # the tokens whose keys and values are cached
        self._sampler: Sampler | None = None  # of the latest answer
        self.speed = Speed(0, 0.0, 0, 0.0, 0)

    def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        sampling: Sampling = GREEDY,
        *,
        limit: int | None = None,
        stop: str | Sequence[str] = (),
    ) -> Iterator[str]:
        """The answer to messages ({"role": ..., "content": ...}), by the model's own template."""
        return self._answer(self.tokenizer.conversation(messages), sampling, limit, stop)

    def generate(
        self,
        prompt: str,
        sampling: Sampling = GREEDY,
        *,
        limit: int | None = None,
        stop: str | Sequence[str] = (),
    ) -> Iterator[str]:
        """How a text goes on, up to `limit` tokens or before the first of the strings `stop`."""
        return self._answer(self.tokenizer.encode(prompt), sampling, limit, stop)

    def _answer(
        self, prompt: list[int], sampling: Sampling, limit: int | None, stop: str | Sequence[str]
    ) -> Iterator[str]:
        if not prompt:
            raise ShapeError("chat: a prompt must have at least one token, got none")
        if len(prompt) >= self.context:
            raise ShapeError(
                f"chat: a prompt must be shorter than the context of {self.context}, got {len(prompt)} tokens"
            )
        if limit is not None and limit < 0:
            raise ShapeError(f"chat: an answer's limit must be at least 0 tokens, got {limit}")
        room = self.context - len(prompt)
        stops = (stop,) if isinstance(stop, str) else stop
        return until(self._text(prompt, sampling, room if limit is None else min(room, limit)), stops)

    def _text(self, prompt: list[int], sampling: Sampling, limit: int) -> Iterator[str]:
        stream = self.tokenizer.stream()
        for token in self.tokens(prompt, sampling, limit):
            text = stream.add(token)
            if text:
                yield text

    def tokens(self, prompt: list[int], sampling: Sampling = GREEDY, limit: int = 1 << 62) -> Iterator[int]:
        """The tokens that follow a prompt, up to one that ends texts."""
        sampler, begun = Sampler(sampling), time.perf_counter()
        self._sampler = sampler
        logits, computed = self.prefill(prompt)
        token = sampler(logits)
        number, first, count = _number(token), time.perf_counter(), 0
        try:
            while count < limit and number not in self.tokenizer.ends:
                yield number
                count += 1
                if count == limit:
                    break
                if self._sampler is not sampler:
                    raise HologramError("chat: this answer was ended by another one that was begun since")
                self.decoder.reserve(len(self.past) + 1)
                logits = self.decoder.next(token)
                self.past.append(number)
                token = sampler(logits)
                number = _number(token)
        finally:
            if self._sampler is sampler:
                seconds = time.perf_counter() - first
                self.speed = Speed(computed, first - begun, count, seconds, self._token_bytes())

    def forget(self) -> None:
        """Has the next prompt be computed whole."""
        self.past = []

    def prefill(self, prompt: list[int]) -> tuple[Tensor, int]:
        """The logits behind a prompt, and how many tokens were computed."""
        known = 0
        while known < min(len(self.past), len(prompt) - 1) and self.past[known] == prompt[known]:
            known += 1
        capacity = self.decoder.capacity_for(min(self.context, len(prompt) + LEAST_PIECE))
        last = _padded(min(len(prompt) - known, MOST_PIECE))
        if last <= capacity < known + last:
            known = capacity - last  # rather computed again than room made for what stands behind a prompt
        computed = len(prompt) - known
        self.past = prompt[:known]
        while True:
            piece = prompt[known : known + MOST_PIECE]
            padded = _padded(len(piece))  # what stands behind a prompt is hidden until it is overwritten
            self.decoder.reserve(max(capacity, known + padded))
            tokens = np.zeros(padded, np.int32)
            tokens[: len(piece)] = piece
            logits, _ = self.decoder(self._whole(tokens), self._whole(known), self._whole(len(piece) - 1))
            known += len(piece)
            self.past += piece
            if known == len(prompt):
                self.executor.copy(self._whole(known), self.decoder.place)
                return logits, computed

    def _whole(self, numbers: Any) -> Tensor:
        return self.executor.tensor(np.atleast_1d(np.asarray(numbers, np.int32)))

    def _token_bytes(self) -> int:
        a = self.architecture
        return self.decoder.weights.read_bytes + len(self.past) * a.layers * a.key_heads * a.head_size * 8


def _padded(tokens: int) -> int:
    """How many tokens are computed for so many: a power of two, so that few numbers of them are traced."""
    return max(LEAST_PIECE, 1 << (tokens - 1).bit_length())


def _number(token: Tensor) -> int:
    return int(token.to_numpy()[0])


def until(pieces: Iterator[str], stop: Sequence[str]) -> Iterator[str]:
    """Text up to the first of some strings; what may be the beginning of one is held back."""
    stops, held = [s for s in stop if s], ""
    for piece in pieces:
        held += piece
        ends = [at for s in stops if (at := held.find(s)) >= 0]
        if ends:
            if min(ends):
                yield held[: min(ends)]
            pieces.close()  # type: ignore[attr-defined]
            return
        open_ = max((n for s in stops for n in range(1, len(s)) if held.endswith(s[:n])), default=0)
        certain, held = held[: len(held) - open_], held[len(held) - open_ :]
        if certain:
            yield certain
    if held:
        yield held


def bandwidth(executor: Executor) -> float:
    """Bytes a second that a device's memory reads and writes, by the best of a few copies."""
    source = executor.zeros(COPIED_BYTES // 4)
    target = source.clone()
    best = float("inf")
    for _ in range(5):
        executor.synchronize()
        start = time.perf_counter()
        executor.copy(source, target)
        executor.synchronize()
        best = min(best, time.perf_counter() - start)
    return 2 * COPIED_BYTES / best
