"""Tiny models of each family as GGUF files, and a decoder in NumPy's float64 that says what they compute."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np

WORDS, LAYERS, CONTEXT = 96, 3, 2048
TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant: {% endif %}"
)


@dataclass(frozen=True)
class Family:
    """How a family's blocks vary, in words of its own: the reference reads nothing of hologram's."""

    architecture: str
    width: int = 64
    heads: int = 4
    key_heads: int = 2
    size: int = 16
    hidden: int = 96
    neighbours: bool = False  # rotated pairs lie side by side
    bias: bool = False
    qk_norm: bool = False
    post_norms: bool = False
    joined: bool = False
    gelu: bool = False
    tied: bool = False
    scale: float = 1.0  # of embeddings
    caps: tuple[float, float] = (0.0, 0.0)  # of scores and logits
    window: int = 0
    period: int = 1  # the last of so many blocks sees everything; 1: all blocks look through the window
    local_base: float = 10000.0
    base: float = 10000.0
    rotated: int = 16
    experts: int = 0
    used: int = 2
    shared: bool = False
    renormalised: bool = True
    divisors: bool = False
    kind: str = "F32"
    layers: int = LAYERS
    metadata: dict[str, Any] = field(default_factory=dict)


GEMMA: dict[str, Any] = {"gelu": True, "tied": True, "scale": 8.0}
FAMILIES = {
    "llama": Family("llama", neighbours=True),
    "llama3": Family("llama", neighbours=True, divisors=True, base=500000.0),
    "mistral": Family("llama", neighbours=True, window=5),
    "smollm": Family("llama", neighbours=True, tied=True, heads=3, key_heads=1, width=48),
    "qwen2": Family("qwen2", bias=True, base=1e6),
    "qwen3": Family("qwen3", qk_norm=True, base=1e6, size=24, rotated=24),
    "gemma": Family("gemma", **GEMMA, key_heads=1),
    "gemma2": Family("gemma2", **GEMMA, post_norms=True, caps=(5.0, 3.0), window=4, period=2),
    "gemma3": Family("gemma3", **GEMMA, post_norms=True, qk_norm=True, window=4, period=6, base=1e6),
    "phi3": Family("phi3", joined=True, window=6, rotated=12),
    "mixtral": Family("llama", neighbours=True, experts=4),
    "qwen2moe": Family("qwen2moe", bias=True, experts=4, shared=True, renormalised=False),
    "packed": Family("llama", neighbours=True, kind="Q8_0"),
    "packed_experts": Family("qwen3moe", qk_norm=True, experts=4, kind="Q4_0"),
}


def tensors(f: Family, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random weights by name."""

    def matrix(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    def vector(n: int) -> np.ndarray:
        return rng.uniform(0.5, 1.5, n).astype(np.float32)

    q, k, made = f.heads * f.size, f.key_heads * f.size, {}
    made["token_embd.weight"] = matrix(WORDS, f.width)
    made["output_norm.weight"] = vector(f.width)
    if not f.tied:
        made["output.weight"] = matrix(WORDS, f.width)
    if f.divisors:
        made["rope_freqs.weight"] = vector(f.rotated // 2) * 4
    for n in range(LAYERS):
        b = f"blk.{n}."
        made |= {f"{b}attn_norm.weight": vector(f.width), f"{b}ffn_norm.weight": vector(f.width)}
        rows = {"attn_qkv": q + 2 * k} if f.joined else {"attn_q": q, "attn_k": k, "attn_v": k}
        made |= {f"{b}{name}.weight": matrix(size, f.width) for name, size in rows.items()}
        if f.bias:
            made |= {f"{b}{name}.bias": vector(size) - 1 for name, size in rows.items()}
        if f.qk_norm:
            made |= {f"{b}attn_{x}_norm.weight": vector(f.size) for x in "qk"}
        if f.post_norms:
            made |= {f"{b}post_{x}_norm.weight": vector(f.width) for x in ("attention", "ffw")}
        made[f"{b}attn_output.weight"] = matrix(f.width, q)
        if f.experts:
            made[f"{b}ffn_gate_inp.weight"] = matrix(f.experts, f.width) * 3
            made |= {f"{b}ffn_{x}_exps.weight": matrix(f.experts, f.hidden, f.width) for x in ("gate", "up")}
            made[f"{b}ffn_down_exps.weight"] = matrix(f.experts, f.width, f.hidden)
        suffix = "_shexp" if f.shared else ""
        if f.shared:
            made[f"{b}ffn_gate_inp_shexp.weight"] = vector(f.width) - 1
        if f.joined:
            made[f"{b}ffn_up.weight"] = matrix(2 * f.hidden, f.width)
        elif not f.experts or f.shared:
            made |= {f"{b}ffn_{x}{suffix}.weight": matrix(f.hidden, f.width) for x in ("gate", "up")}
        if not f.experts or f.shared:
            made[f"{b}ffn_down{suffix}.weight"] = matrix(f.width, f.hidden)
    return made


def vocabulary() -> list[str]:
    """Letters as GPT-2 writes bytes, a few pairs, and the tokens that begin and end texts."""
    letters = [chr(c) for c in range(33, 122)]
    return [*letters, "\u0120", "\u010a", "th", "he", "the", "<s>", "</s>"]


def write(path: Path, f: Family, seed: int = 0, **metadata: Any) -> dict[str, np.ndarray]:
    """Writes a model; its weights as the file gives them back. `metadata` replaces keys (None leaves one out)."""
    writer = gguf.GGUFWriter(path, f.architecture)
    a = f.architecture
    given: dict[str, Any] = {
        f"{a}.block_count": LAYERS,
        f"{a}.context_length": CONTEXT,
        f"{a}.embedding_length": f.width,
        f"{a}.attention.head_count": f.heads,
        f"{a}.attention.head_count_kv": f.key_heads,
        f"{a}.attention.key_length": f.size,
        f"{a}.attention.value_length": f.size,
        f"{a}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{a}.rope.freq_base": f.base,
        f"{a}.rope.dimension_count": f.rotated,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": vocabulary(),
        "tokenizer.ggml.token_type": [1] * (WORDS - 2) + [3, 3],
        "tokenizer.ggml.merges": ["t h", "h e", "th e"],
        "tokenizer.ggml.bos_token_id": WORDS - 2,
        "tokenizer.ggml.eos_token_id": WORDS - 1,
        "tokenizer.chat_template": TEMPLATE,
    }
    optional = {"attention.sliding_window": f.window, "expert_count": f.experts}
    optional |= {"attn_logit_softcapping": f.caps[0], "final_logit_softcapping": f.caps[1]}
    given |= {f"{a}.{key}": value for key, value in optional.items() if value}
    if f.experts:
        given[f"{a}.expert_used_count"] = f.used
    for key, value in (given | metadata).items():
        add(writer, key, value)
    made = tensors(f, np.random.default_rng(seed))
    kept = {}
    for name, weight in made.items():
        kept[name] = weight
        kind = gguf.GGMLQuantizationType[f.kind]
        if f.kind != "F32" and weight.ndim > 1 and "gate_inp" not in name:
            blocks = gguf.quantize(weight, kind)
            writer.add_tensor(name, blocks, raw_dtype=kind)
            kept[name] = gguf.dequantize(blocks, kind)
        else:
            writer.add_tensor(name, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return kept


def add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if value is None:
        return
    adders = {
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
        list: writer.add_array,
    }
    adders[bool] = writer.add_bool
    adders[type(value)](key, value)


def logits(f: Family, w: dict[str, np.ndarray], tokens: list[int]) -> np.ndarray:
    """Of each token of a text (tokens, words), in float64."""
    w = {name: weight.astype(np.float64, copy=False) for name, weight in w.items()}
    x = w["token_embd.weight"][tokens] * f.scale
    for n in range(f.layers):
        b = {name.split(".", 2)[2]: weight for name, weight in w.items() if name.startswith(f"blk.{n}.")}
        near = f.window and (f.period == 1 or n % f.period != f.period - 1)
        y = attention(
            f, b, rms(x, b["attn_norm.weight"]), f.window if near else 0, w.get("rope_freqs.weight")
        )
        x = x + (rms(y, b["post_attention_norm.weight"]) if f.post_norms else y)
        y = rms(x, b["ffn_norm.weight"])
        y = experts(f, b, y) if f.experts else network(f, b, y)
        x = x + (rms(y, b["post_ffw_norm.weight"]) if f.post_norms else y)
    y = rms(x, w["output_norm.weight"]) @ w["token_embd.weight" if f.tied else "output.weight"].T
    return capped(y, f.caps[1])


def rms(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-5) * weight


def capped(x: np.ndarray, cap: float) -> np.ndarray:
    return np.tanh(x / cap) * cap if cap else x


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def rotate(f: Family, x: np.ndarray, base: float, divisors: np.ndarray | None) -> np.ndarray:
    """Heads (tokens, heads, size), each pair as a complex number."""
    half = f.rotated // 2
    frequencies = base ** (-np.arange(half) / half) / (1 if divisors is None else divisors)
    turns = np.exp(1j * np.arange(len(x))[:, None] * frequencies)[:, None]
    first, second = (
        (slice(0, f.rotated, 2), slice(1, f.rotated, 2))
        if f.neighbours
        else (slice(half), slice(half, f.rotated))
    )
    turned, y = (x[..., first] + 1j * x[..., second]) * turns, x.copy()
    y[..., first], y[..., second] = turned.real, turned.imag
    return y


def attention(
    f: Family, b: dict[str, np.ndarray], x: np.ndarray, window: int, divisors: np.ndarray | None
) -> np.ndarray:
    n, counts = len(x), (f.heads, f.key_heads, f.key_heads)
    names = ("attn_q", "attn_k", "attn_v")
    if f.joined:
        parts = np.split(x @ b["attn_qkv.weight"].T, np.cumsum([c * f.size for c in counts])[:2], axis=-1)
    else:
        parts = [x @ b[f"{p}.weight"].T + (b[f"{p}.bias"] if f.bias else 0) for p in names]
    q, k, v = (p.reshape(n, c, f.size) for p, c in zip(parts, counts, strict=True))
    if f.qk_norm:
        q, k = rms(q, b["attn_q_norm.weight"]), rms(k, b["attn_k_norm.weight"])
    base = f.local_base if window and f.architecture == "gemma3" else f.base
    q, k = (rotate(f, p, base, divisors) for p in (q, k))
    k, v = (np.repeat(p, f.heads // f.key_heads, axis=1) for p in (k, v))
    scores = capped(np.einsum("qhd,khd->hqk", q, k) / np.sqrt(f.size), f.caps[0])
    distance = np.arange(n)[:, None] - np.arange(n)
    seen = (distance >= 0) & ((distance < window) if window else True)
    weights = softmax(np.where(seen, scores, -np.inf))
    return np.einsum("hqk,khd->qhd", weights, v).reshape(n, -1) @ b["attn_output.weight"].T


def activated(f: Family, x: np.ndarray) -> np.ndarray:
    if f.gelu:
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x / (1 + np.exp(-x))


def network(f: Family, b: dict[str, np.ndarray], x: np.ndarray, suffix: str = "") -> np.ndarray:
    up = x @ b[f"ffn_up{suffix}.weight"].T
    gate, up = np.split(up, 2, axis=-1) if f.joined else (x @ b[f"ffn_gate{suffix}.weight"].T, up)
    return (activated(f, gate) * up) @ b[f"ffn_down{suffix}.weight"].T


def experts(f: Family, b: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    shares, y = softmax(x @ b["ffn_gate_inp.weight"].T), np.zeros_like(x)
    for row, share in enumerate(shares):
        chosen = np.argsort(-share)[: f.used]
        whole = share[chosen].sum() if f.renormalised else 1
        for e in chosen:
            own = {f"ffn_{m}.weight": b[f"ffn_{m}_exps.weight"][e] for m in ("gate", "up", "down")}
            y[row] += network(f, own, x[row]) * share[e] / whole
    if f.shared:
        y += network(f, b, x, "_shexp") / (1 + np.exp(-(x @ b["ffn_gate_inp_shexp.weight"])))[:, None]
    return y
