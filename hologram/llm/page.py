"""A model as a page: its decoder as two programs of WebGPU's, and what the page needs to know of its file.

The folder has no weights, unless the file is copied into it: the page reads them from the GGUF file, which its user
picks or the folder holds, and packs them as hologram does (web/gguf.js).
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import hologram as hg
from hologram.foundation.errors import ShapeError, UnsupportedOperation
from hologram.foundation.frozen import frozen
from hologram.frontend.executor import Executor
from hologram.frontend.saved.export import dotted
from hologram.frontend.tensor import Tensor
from hologram.frontend.tree import leaves, mapped, paths
from hologram.llm.architecture import Architecture, architecture
from hologram.llm.cache import BLOCK
from hologram.llm.decoder import LEAST_PIECE, Rotation, begin, block, finish, rotations
from hologram.llm.gguf import GGUF
from hologram.llm.tokenizer import CONTROL, CUTS, DEFINED, DIGITS, Tokenizer
from hologram.llm.weights import Loader, Part, Weights

WEB = Path(__file__).parent / "web"
MODEL = "model.gguf"
# What web/gguf.js packs: of a block the bytes of scales and minima, then codes, which lie as hologram's do.
KINDS = ("F32", "Q8_0", "Q4_0", "Q4_1", "IQ4_NL")
# How GPT-2 cuts a text (Radford et al. 2019); the other ways are the tokenizer's.
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
MARKS = ("\ufdd0", "\ufdd1", "\ufdd2")  # what no text has


def write_page(
    path: str | Path, folder: str | Path, context: int = 512, *, piece: int = LEAST_PIECE, copy: bool = True
) -> None:
    """Writes a page that talks with the model of a GGUF file, in a context of so many tokens.

    Prompts are computed `piece` tokens at a time. With `copy` the folder holds the file; without, whoever opens the
    page picks it.

    Raises:
        FormatError: the file is not what it says.
        ShapeError: the context is not a multiple of 64 tokens that the model knows.
        UnsupportedOperation: weights or a tokenizer of a kind that the page does not read.
    """
    model, folder = GGUF(path), Path(folder)
    a = architecture(model)
    if context % BLOCK or not BLOCK <= context <= a.context:
        raise ShapeError(
            f"page: the context must be a multiple of {BLOCK} up to {a.context} tokens, got {context}"
        )
    talk = _talk(model)
    with Executor("cpu") as executor:
        loader = Noting(model, a, executor)
        weights = loader.weights()
        tree = {"embedding": weights.embedding, "blocks": list(weights.blocks), "norm": weights.norm}
        if weights.head is not weights.embedding:
            tree["head"] = weights.head
        recipes = loader.recipes(tree)
        empty = mapped(
            tree, lambda leaf: executor.zeros(leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else leaf
        )
        places = (a.key_heads, context, a.head_size)
        caches = [tuple(executor.zeros(places) for _ in range(2)) for _ in range(a.layers)]
        known = executor.zeros((1, 1), "i32")
        decoder = Resident(a, weights, executor, context)
        for name, function, n in (("prompt", decoder.read, piece), ("step", decoder.step, 1)):
            tokens = executor.zeros((1, n), "i32")
            hg.export_web(folder / name, function, tokens, known, empty, caches, state=("weights", "cache"))
    about = {
        "model": _name(model),
        "file": MODEL if copy else None,
        "bytes": len(model.bytes),
        "sha256": hashlib.sha256(model.bytes).hexdigest(),
        "context": context,
        "piece": piece,
        "heads": {"size": a.head_size, "rotated": a.rotated, "paired": a.paired},
        "weights": recipes,
        "talk": talk,
    }
    (folder / "page.json").write_text(json.dumps(about), encoding="utf-8")
    shutil.copytree(WEB, folder, dirs_exist_ok=True)
    if copy:
        shutil.copyfile(path, folder / MODEL)


@frozen(eq=False)
class Resident:
    """A decoder of one text, whose keys and values lie in one piece of memory, as functions of it and the weights."""

    a: Architecture
    weights: Weights
    executor: Executor
    context: int

    def features(
        self, tokens: Tensor, known: Tensor, weights: Any, cache: Any
    ) -> tuple[Tensor, Tensor, list[Any]]:
        """As Decoder.features: what tokens (1, n) are behind those that are known (1, 1), and the cache with them."""
        divisors = self.weights.divisors
        own = None if divisors is None else divisors[self.context > self.a.short_context]
        rotated: list[Rotation] = [
            tuple(map(self.executor.tensor, rotations(self.a, sight, own, self.context)))
            for sight in self.a.sights
        ]
        table = np.arange(-1, self.context // BLOCK, dtype=np.int32)[None].clip(0)
        tables = [self.executor.tensor(table) for _ in self.a.sights]
        x, y, places = begin(self.a, tokens, None, known, tables, weights["embedding"], rotated)
        kept = []
        for own, pair, sight in zip(weights["blocks"], cache, self.a.sight_of, strict=True):
            x, y, pair = block(self.a, self.a.sights[sight], x, y, own, pair, places[sight])
            kept.append(pair)
        return x, y, kept

    def read(self, tokens: Tensor, known: Tensor, weights: Any, cache: Any) -> dict[str, Any]:
        """A piece of a prompt: what it leaves in the cache."""
        return {"cache": self.features(tokens, known, weights, cache)[2]}

    def step(self, tokens: Tensor, known: Tensor, weights: Any, cache: Any) -> dict[str, Any]:
        """A token, and the likeliest behind it."""
        x, y, kept = self.features(tokens, known, weights, cache)
        head = weights.get("head", weights["embedding"])
        return {"token": finish(self.a, x, y, weights["norm"], head, None, "0", tokens)[0], "cache": kept}


class Noting(Loader):
    """Notes which of the file's tensors weights are."""

    def __init__(self, model: GGUF, a: Architecture, executor: Executor) -> None:
        super().__init__(model, a, executor)
        self._noted: list[tuple[Any, dict[str, Any]]] = []

    def placed(self, part: Part) -> Any:
        return self._note(super().placed(part), part.kind, part.columns, part.tensors)

    def vector(self, name: str, size: int) -> Tensor:
        full = f"{name}.weight"
        return self._note(super().vector(name, size), self.model.tensors[full].kind, size, (full,))

    def _note(self, placed: Any, kind: str, columns: int, tensors: tuple[str, ...]) -> Any:
        if kind not in KINDS:
            raise UnsupportedOperation(
                f"page: {tensors[0]} is {kind}, and a page reads {', '.join(KINDS)}: quantise it so"
            )
        self._noted.append((placed, {"kind": kind, "columns": columns, "tensors": tensors}))
        return placed

    def recipes(self, tree: Any) -> dict[str, Any]:
        """By the names that the program's state has, what each weight is made of."""
        known = {id(leaf): recipe for placed, recipe in self._noted for leaf in leaves(placed)}
        found = {}
        for path, leaf in zip(paths(tree, "weights"), leaves(tree), strict=True):
            if not isinstance(leaf, Tensor):
                continue
            if id(leaf) not in known:
                raise UnsupportedOperation(f"page: {path} is not one that a page loads")
            found[dotted(path)] = known[id(leaf)]
        return found


def _name(model: GGUF) -> str:
    """What a page calls the model."""
    parts = [str(model.metadata.get(f"general.{key}", "")) for key in ("basename", "size_label")]
    return " ".join(filter(None, parts)) or str(model.metadata.get("general.name", model.path.stem))


def _talk(model: GGUF) -> dict[str, Any]:
    """How a text becomes tokens, and what stands around what is said."""
    kind, cut = model.get("tokenizer.ggml.model", str, ""), model.get("tokenizer.ggml.pre", str, "default")
    if kind != "gpt2":
        raise UnsupportedOperation(f"page: a page has tokens of bytes ('gpt2'), got a tokenizer {kind!r}")
    types = model.metadata.get("tokenizer.ggml.token_type", np.zeros(0))
    tokenizer = Tokenizer(model)  # which takes the tokens, and what they are, out of the metadata
    users = [{"role": "user", "content": MARKS[0]}]
    more = [*users, {"role": "assistant", "content": MARKS[1]}, {"role": "user", "content": MARKS[2]}]
    before, behind = tokenizer.written(users).split(MARKS[0])
    _, rest = tokenizer.written(more).split(MARKS[1])
    return {
        "nfc": cut == "qwen2",
        "digits": cut in DIGITS,
        "cut": (CUTS.get(cut) or GPT2).replace(r"\s", r"\p{White_Space}").replace(r"\S", r"\P{White_Space}"),
        "special": [k for k, t in enumerate(types.tolist()) if t in (CONTROL, DEFINED)],
        "hidden": [k for k, t in enumerate(types.tolist()) if t == CONTROL],
        "ends": sorted(tokenizer.ends),
        "before": before,  # the first that is said
        "between": rest.split(MARKS[2])[0],  # an answer and what is said then
        "behind": behind,  # what is said, and ahead of the answer
    }
