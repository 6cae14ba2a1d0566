"""Text as tokens and back, and conversations as text, as a GGUF's metadata says: by `tokenizers` and `jinja2`."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.foundation import lazy
from hologram.foundation.errors import BackendUnavailable
from hologram.foundation.extras import install
from hologram.llm.gguf import GGUF

if TYPE_CHECKING:
    import tokenizers
    from jinja2 import sandbox
else:  # of the extra `llm`
    tokenizers, sandbox = lazy.module("tokenizers"), lazy.module("jinja2.sandbox")

CONTRACTED = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = (rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+", rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*")
_SLASHED = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# How text is cut before pairs are merged, by the name that `tokenizer.ggml.pre` gives; None is GPT-2's own way.
CUTS: dict[str, str | None] = {
    "default": None,
    "gpt-2": None,
    "llama-bpe": rf"{CONTRACTED}|{_LETTERS}|\p{{N}}{{1,3}}|{_REST}",
    "qwen2": rf"{CONTRACTED}|{_LETTERS}|\p{{N}}|{_REST}",
    "tekken": "|".join((*_CASED, r"\p{N}", _SLASHED)),
    "gpt-4o": "|".join((*(f"{c}{CONTRACTED}?" for c in _CASED), r"\p{N}{1,3}", _SLASHED)),
}
CUTS |= {"llama3": CUTS["llama-bpe"], "smaug-bpe": CUTS["llama-bpe"], "deepseek-r1-qwen": CUTS["qwen2"]}
CUTS |= {"phi-2": None, "llama4": CUTS["gpt-4o"]}
DIGITS = ("smollm", "starcoder", "refact", "command-r")  # numbers digit by digit, then GPT-2's way
NORMAL, UNKNOWN, CONTROL, DEFINED = 1, 2, 3, 4  # types of tokens
SPACE = "\u2581"
_BROKEN = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError)
_LOOPS = "jinja2.ext.loopcontrols"  # break and continue, which templates have from transformers


class Tokenizer:
    """The tokens of a model: `encode`, `stream`, and `conversation`, its template for what is said in turns.

    Raises FormatError where the metadata does not describe a tokenizer that is known, BackendUnavailable where the
    extra `llm` is missing.
    """

    def __init__(self, model: GGUF) -> None:
        try:
            self.codec = _codec(model)
        except ImportError as error:
            raise BackendUnavailable(f"text needs tokenizers and jinja2: {install('llm')}") from error
        self.model = model
        self.words = self.codec.get_vocab_size()
        self.first = self._special("bos")
        self.begins = bool(model.metadata.get("tokenizer.ggml.add_bos_token", self._sentencepiece))
        ends = (self._special("eos"), self._special("eot"), self._special("eom"))
        named = (self.codec.token_to_id(t) for t in ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>"))
        self.ends = frozenset(t for t in (*ends, *named) if t is not None)

    @property
    def _sentencepiece(self) -> bool:
        return self.model.metadata["tokenizer.ggml.model"] == "llama"

    def _special(self, name: str) -> int | None:
        key = f"tokenizer.ggml.{name}_token_id"
        number = self.model.get(key, int, None)
        if number is not None and not 0 <= number < self.words:
            raise self.model.wrong(key, f"it must be below {self.words}, got {number}")
        return number

    def encode(self, text: str, *, begins: bool | None = None) -> list[int]:
        """The tokens of a text, behind the one that begins texts if the model wants it."""
        tokens = list(self.codec.encode(text, add_special_tokens=False).ids)
        begins = self.begins if begins is None else begins
        if begins and self.first is not None and tokens[:1] != [self.first]:
            tokens.insert(0, self.first)
        return tokens

    def stream(self, stop: str | Sequence[str] = ()) -> Stream:
        """A text that grows by a token at a time, up to the first of some strings."""
        return Stream(self.codec, stop)

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The tokens of what was said ({"role": ..., "content": ...}) up to where the model answers."""
        return self.encode(self.written(messages))

    def written(self, messages: Sequence[Mapping[str, str]]) -> str:
        """What was said as the model's template has it."""
        key = "tokenizer.chat_template"
        template = self.model.get(key, str, None)
        if template is None:
            raise self.model.wrong(
                key, "this model has no template for conversations; generate() goes on from a text"
            )
        environment = sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_LOOPS]
        )
        environment.globals["raise_exception"] = _refused
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
        names = {n: self.codec.id_to_token(i) for n in ("bos", "eos") if (i := self._special(n)) is not None}
        given = {f"{n}_token": text for n, text in names.items()}
        from jinja2 import TemplateError

        try:
            return environment.from_string(template).render(
                messages=messages, tools=None, documents=None, add_generation_prompt=True, **given
            )
        except (TemplateError, *_BROKEN) as error:
            raise self.model.wrong(key, f"it cannot be applied: {type(error).__name__}: {error}") from error


class Stream:
    """The text of tokens as they come, up to the first of some strings.

    A character is given once its last byte is known; what may be the beginning of a string is `held` back.
    """

    def __init__(self, codec: Any, stop: str | Sequence[str] = ()) -> None:
        self._codec, self._stream = codec, tokenizers.decoders.DecodeStream(skip_special_tokens=True)
        self._stops = [s for s in ((stop,) if isinstance(stop, str) else stop) if s]
        self.held, self.ended = "", False

    def add(self, token: int) -> str:
        """What a further token makes certain, which may be nothing."""
        return self.write(self._stream.step(self._codec, token) or "")

    def write(self, piece: str) -> str:
        """What a further piece makes certain."""
        text = self.held + piece
        ends = [at for s in self._stops if (at := text.find(s)) >= 0]
        if ends:
            self.held, self.ended = "", True
            return text[: min(ends)]
        open_ = max((n for s in self._stops for n in range(1, len(s)) if text.endswith(s[:n])), default=0)
        self.held = text[len(text) - open_ :]
        return text[: len(text) - open_]


def _refused(text: str) -> None:
    raise ValueError(text)


def _codec(model: GGUF) -> Any:
    """The tokenizer that metadata describes."""
    kind, tokens = model.get("tokenizer.ggml.model", str, ""), model.take("tokenizer.ggml.tokens", list, [])
    if not tokens or not all(isinstance(t, str) for t in tokens):
        raise model.wrong("tokenizer.ggml.tokens", "a list of strings is needed")
    ways = {"gpt2": _bytes, "llama": _pieces}
    if kind not in ways:
        raise model.wrong("tokenizer.ggml.model", f"it must be one of {', '.join(ways)}, got {kind!r}")
    codec = ways[kind](model, tokens)
    types = _numbers(model, "token_type", len(tokens), [NORMAL] * len(tokens))
    for text, special in (
        (t, k == CONTROL) for t, k in zip(tokens, types, strict=True) if k in (CONTROL, DEFINED)
    ):
        added = tokenizers.AddedToken(text, special=special, normalized=False)
        (codec.add_special_tokens if special else codec.add_tokens)([added])
    return codec


def _numbers(model: GGUF, name: str, count: int, *default: Any) -> Any:
    """As many numbers as there are tokens."""
    key = f"tokenizer.ggml.{name}"
    found = model.take(key, np.ndarray, *default)
    if len(found) != count:
        raise model.wrong(key, f"{count} are needed, got {len(found)}")
    return found


def _bytes(model: GGUF, tokens: list[str]) -> Any:
    """Pairs of bytes, merged in a given order (Sennrich et al. 2016, Radford et al. 2019)."""
    pairs = [
        tuple(m.split(" ", 1)) for m in model.take("tokenizer.ggml.merges", list, []) if isinstance(m, str)
    ]
    vocabulary = {t: i for i, t in enumerate(tokens)}
    for left, right in (p if len(p) == 2 else (*p, "") for p in pairs):
        if not {left, right, left + right} <= vocabulary.keys():
            raise model.wrong(
                "tokenizer.ggml.merges", f"its parts must be tokens, got {left!r} and {right!r}"
            )
    codec = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, pairs))
    before, name = tokenizers.pre_tokenizers, model.get("tokenizer.ggml.pre", str, "default")
    if name not in CUTS and name not in DIGITS:
        known = ", ".join((*CUTS, *DIGITS))
        raise model.wrong("tokenizer.ggml.pre", f"it must be one of {known}, got {name!r}")
    pattern, steps = CUTS.get(name), []
    if name in DIGITS:
        steps = [before.Digits(individual_digits=True)]
    elif pattern is not None:
        steps = [before.Split(tokenizers.Regex(pattern), "isolated")]
    steps.append(before.ByteLevel(add_prefix_space=False, use_regex=pattern is None))
    codec.pre_tokenizer = before.Sequence(steps)
    codec.decoder = tokenizers.decoders.ByteLevel()
    if name == "qwen2":
        codec.normalizer = tokenizers.normalizers.NFC()
    return codec


def _pieces(model: GGUF, tokens: list[str]) -> Any:
    """SentencePiece's pairs: the one whose whole has the best score is merged first (Kudo, Richardson 2018)."""
    scores = _numbers(model, "scores", len(tokens))
    vocabulary = {t: i for i, t in enumerate(tokens)}
    ranked = sorted(range(len(tokens)), key=lambda i: (-float(scores[i]), i))
    pairs = [
        (tokens[i][:cut], tokens[i][cut:])
        for i in ranked
        for cut in range(1, len(tokens[i]))
        if tokens[i][:cut] in vocabulary and tokens[i][cut:] in vocabulary
    ]
    unknown = model.get("tokenizer.ggml.unknown_token_id", int, 0)
    if not 0 <= unknown < len(tokens):
        raise model.wrong("tokenizer.ggml.unknown_token_id", f"it must be below {len(tokens)}, got {unknown}")
    settings = {"unk_token": tokens[unknown], "fuse_unk": True, "byte_fallback": True}
    codec = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, pairs, **settings))
    normal, after = tokenizers.normalizers, tokenizers.decoders
    prefixed = model.get("tokenizer.ggml.add_space_prefix", bool, True)
    codec.normalizer = normal.Sequence(
        [*([normal.Prepend(SPACE)] if prefixed else []), normal.Replace(" ", SPACE)]
    )
    stripped = [after.Strip(" ", 1, 0)] if prefixed else []
    codec.decoder = after.Sequence([after.Replace(SPACE, " "), after.ByteFallback(), after.Fuse(), *stripped])
    return codec
