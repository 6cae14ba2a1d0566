"""The weights of a decoder on a device: blocks of codes stay packed, everything else is f32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hologram.foundation.frozen import frozen
from hologram.frontend.executor import Executor
from hologram.frontend.packed import Packed
from hologram.frontend.tensor import Tensor
from hologram.llm.architecture import Architecture
from hologram.llm.gguf import GGUF, PLAIN

Matrix = tuple[Any, ...]  # tensors or Packed, which stand one below the other
Block = dict[str, Any]


class Part(NamedTuple):
    """Rows of a matrix, or a vector as one of floats, and the file's tensors that they are, one below the other."""

    kind: str
    columns: int
    rows: np.ndarray  # as bytes
    tensors: tuple[str, ...]


@frozen(eq=False, repr=False)
class Weights:
    """All of a model's; `block` by block, and what divides the frequencies of rotations."""

    embedding: Any
    blocks: tuple[Block, ...]
    norm: Tensor
    head: Any
    divisors: tuple[np.ndarray, np.ndarray] | None  # up to the context of training, and beyond

    @property
    def read_bytes(self) -> int:
        """What one token reads of them."""
        return sum(map(_nbytes, (*self.blocks, self.norm, self.head)))


def load(model: GGUF, a: Architecture, executor: Executor) -> Weights:
    """Puts a file's weights on a device. Raises FormatError where one is missing or of another shape."""
    weights = Loader(model, a, executor).weights()
    model.put_aside()
    return weights


class Loader:
    """Reads weights of a file, block by block; `placed` puts each on a device."""

    def __init__(self, model: GGUF, a: Architecture, executor: Executor) -> None:
        self.model, self.a, self.executor = model, a, executor

    def weights(self) -> Weights:
        a, tensors = self.a, self.model.tensors
        words = tensors["token_embd.weight"].shape[0] if "token_embd.weight" in tensors else 1
        embedding = self.matrix("token_embd", words)[0]
        tied = "output.weight" not in tensors
        divisors = [n for n in ("rope_factors_short.weight", "rope_factors_long.weight") if n in tensors]
        divisors = divisors or [n for n in ("rope_freqs.weight",) if n in tensors]
        found = [self._numbers(n, (a.rotated // 2,)) for n in divisors]
        return Weights(
            embedding,
            tuple(self.block(n) for n in range(a.layers)),
            self.vector("output_norm", a.width),
            embedding if tied else self.matrix("output", words)[0],
            (found[0], found[-1]) if found else None,
        )

    def block(self, layer: int) -> Block:
        """A block's weights, named as in its file but for those that are joined: qkv, gate_up."""
        self.model.put_aside()
        a, at = self.a, f"blk.{layer}."
        queries, keys = a.heads * a.head_size, a.key_heads * a.head_size
        sizes = {"attn_q": queries, "attn_k": keys, "attn_v": keys}
        if self._has(f"{at}attn_qkv.weight"):
            sizes = {"attn_qkv": queries + 2 * keys}
        block: Block = {
            "qkv": self._joined([self._rows(at + n, size, a.width) for n, size in sizes.items()]),
            "attn_output": self.matrix(f"{at}attn_output", a.width, queries),
        }
        if any(self._has(f"{at}{n}.bias") for n in sizes):
            biases = [self._bias(at + n, size) for n, size in sizes.items()]
            block["qkv_bias"] = self.executor.tensor(np.concatenate(biases))
        if self._has(f"{at}attn_q_norm.weight"):
            heads = {"attn_q_norm": a.heads, "attn_k_norm": a.key_heads}
            rows = [self._numbers(f"{at}{n}.weight", (a.head_size,)) for n in heads]
            block["qk_norm"] = self.executor.tensor(np.repeat(rows, list(heads.values()), axis=0))
        needed = ("attn_norm", "ffn_norm")
        block |= {
            n: self.vector(at + n, a.width)
            for n in (*needed, "post_attention_norm", "post_ffw_norm")
            if n in needed or self._has(f"{at}{n}.weight")
        }
        return block | (self._experts(at) if a.experts else self._gated(at))

    def _gated(self, at: str, suffix: str = "") -> Block:
        """A gated network; `suffix` is of the one that all tokens share beside experts."""
        width = self.a.width
        up, down = f"{at}ffn_up{suffix}", f"{at}ffn_down{suffix}"
        rows = self._shape(up)[0]
        if self._has(f"{at}ffn_gate{suffix}.weight"):
            gate_up = self._joined(
                [self._rows(f"{at}ffn_gate{suffix}", rows, width), self._rows(up, rows, width)]
            )
        else:
            gate_up, rows = self.matrix(up, rows), rows // 2
        return {f"gate_up{suffix}": gate_up, f"down{suffix}": self.matrix(down, width, rows)}

    def _experts(self, at: str) -> Block:
        """Experts, each matrix of all of them below one another, and what chooses among them."""
        width, experts = self.a.width, self.a.experts
        hidden = self._shape(f"{at}ffn_up_exps")[-2]
        block: Block = {"router": self.matrix(f"{at}ffn_gate_inp", experts)}
        sizes = {"gate": (hidden, width), "up": (hidden, width), "down": (width, hidden)}
        gate, up, down = (
            self._rows(f"{at}ffn_{name}_exps", experts * rows, columns, (experts, rows, columns))
            for name, (rows, columns) in sizes.items()
        )
        block |= {"gate_up_experts": self._joined([gate, up]), "down_experts": self._joined([down])}
        if self._has(f"{at}ffn_up_shexp.weight"):
            block |= self._gated(at, "_shexp")
            block["shared_gate"] = self.vector(f"{at}ffn_gate_inp_shexp", width)
        return block

    # How one comes from the file.

    def matrix(self, name: str, rows: int, columns: int | None = None) -> Matrix:
        return self._joined([self._rows(name, rows, self.a.width if columns is None else columns)])

    def vector(self, name: str, size: int) -> Tensor:
        return self.executor.tensor(self._numbers(f"{name}.weight", (size,)))

    def _bias(self, name: str, size: int) -> np.ndarray:
        """Zeros where there is none."""
        if not self._has(f"{name}.bias"):
            return np.zeros(size, np.float32)
        return self._turned(name, self._numbers(f"{name}.bias", (size,)))

    def _has(self, name: str) -> bool:
        return name in self.model.tensors

    def _shape(self, name: str, shape: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """A matrix's shape, which must be the given one."""
        found = self.model.tensors.get(f"{name}.weight")
        if found is None or len(found.shape) < 2 or (shape is not None and found.shape != shape):
            got = "it is missing" if found is None else f"got {found.shape}"
            wanted = "a matrix" if shape is None else f"shape {shape}"
            raise self.model.wrong(f"tensor '{name}.weight'", f"{wanted} is needed, {got}")
        return found.shape

    def _rows(self, name: str, rows: int, columns: int, shape: tuple[int, ...] = ()) -> Part:
        self._shape(name, shape or (rows, columns))
        full = f"{name}.weight"
        found = self._turned(name, self.model.data(full).reshape(rows, -1))
        return Part(self.model.tensors[full].kind, columns, found, (full,))

    def _numbers(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """A vector as f32, which it must be in the file, or a half of it."""
        found = self.model.tensors.get(name)
        if found is None or found.shape != shape or found.kind not in PLAIN:
            got = "it is missing" if found is None else f"got {found.kind} of shape {found.shape}"
            raise self.model.wrong(f"tensor {name!r}", f"floats of shape {shape} are needed, {got}")
        return self.model.data(name).view(PLAIN[found.kind].numpy).astype(np.float32)

    def _joined(self, parts: Sequence[Part]) -> Matrix:
        """Matrices below one another: one where all are of a kind."""
        if len(parts) > 1 and len({part.kind for part in parts}) == 1:
            rows = np.concatenate([part.rows for part in parts])
            parts = [parts[0]._replace(rows=rows, tensors=sum((part.tensors for part in parts), ()))]
        return tuple(self.placed(part) for part in parts)

    def placed(self, part: Part) -> Any:
        kind, columns, rows, _ = part
        if kind in PLAIN:
            return self.executor.tensor(np.ascontiguousarray(rows).view(PLAIN[kind].numpy).astype(np.float32))
        return Packed.from_gguf(rows.reshape(-1), kind, (len(rows), columns), self.executor)

    def _turned(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Rows of a matrix: of queries' and keys' heads, those that are rotated together lie half of them apart."""
        if not self.a.paired or not name.endswith(("attn_q", "attn_k")):
            return rows
        order, rotated = np.arange(len(rows)).reshape(-1, self.a.head_size), self.a.rotated
        halves = [order[:, k:rotated:2] for k in (0, 1)]
        return rows[np.concatenate([*halves, order[:, rotated:]], axis=1).reshape(-1)]


def _nbytes(tree: Any) -> int:
    if isinstance(tree, dict):
        return sum(map(_nbytes, tree.values()))
    return sum(map(_nbytes, tree)) if isinstance(tree, tuple) else tree.nbytes
