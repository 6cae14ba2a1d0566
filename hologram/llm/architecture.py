"""What a decoder is, as its file says: one description of a block, in which families of models differ by fields."""

from __future__ import annotations

from typing import Any

from hologram.foundation.frozen import frozen
from hologram.llm.gguf import GGUF

# What a family has that its metadata and tensors do not tell.
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"paired": True},  # and Mistral, Mixtral, SmolLM
    "qwen2": {},
    "qwen2moe": {"shares_sum_to_one": False},
    "qwen3": {},
    "qwen3moe": {},
    "phi3": {},
    "gemma": {"gelu": True, "scaled": True},
    "gemma2": {"gelu": True, "scaled": True, "period": 2, "large": 46},
    "gemma3": {"gelu": True, "scaled": True, "period": 6, "large": 62, "local_base": 10000.0},
}

FARTHEST = (1 << 31) - 1  # tokens that a window shows: positions are i32


@frozen
class Sight:
    """How a block sees what came before: the base of its rotations, what divides positions, and how far it looks."""

    base: float
    divisor: float
    window: int | None


@frozen
class Architecture:
    """A decoder of transformers: sizes, and how its blocks vary. Sizes are numbers of features or of tokens."""

    family: str
    layers: int
    width: int
    heads: int
    key_heads: int
    head_size: int
    rotated: int  # features of a head that are rotated, in pairs
    paired: bool  # rotated pairs are neighbours; else a half apart
    context: int
    epsilon: float
    attention_scale: float
    attention_cap: float  # soft caps: 0 for none
    logit_cap: float
    embedding_scale: float
    gelu: bool
    experts: int
    experts_used: int
    shares_sum_to_one: bool
    short_context: int  # tokens up to which the first of two sets of divisors holds
    rotation_scale: float  # of rotations whose frequencies are divided
    sights: tuple[Sight, ...]
    sight_of: tuple[int, ...]  # by block: which of them


def architecture(model: GGUF) -> Architecture:
    """The architecture that a file describes.

    Raises FormatError for a family that is not known, and for numbers that cannot be.
    """
    family = model.get("general.architecture", str)
    if family not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise model.wrong("general.architecture", f"it must be one of {known}, got {family!r}")
    special = FAMILIES[family]

    def count(key: str, *default: Any) -> int:
        return model.get(f"{family}.{key}", int, *default, least=1)

    def number(key: str, default: float) -> float:
        return model.get(f"{family}.{key}", float, default)

    def must(holds: bool, key: str, text: str) -> None:
        if not holds:
            raise model.wrong(f"{family}.{key}", text)

    layers, width, heads = count("block_count"), count("embedding_length"), count("attention.head_count")
    stored = len(model.tensors)
    must(layers <= stored, "block_count", f"there are {stored} tensors, got {layers} blocks")
    must(heads <= width, "attention.head_count", f"it must be at most the width {width}, got {heads}")
    head_size, key_heads = (
        count("attention.key_length", width // heads),
        count("attention.head_count_kv", heads),
    )
    must(not heads % key_heads, "attention.head_count_kv", f"it must divide {heads} heads, got {key_heads}")
    rotated = count("rope.dimension_count", head_size)
    text = f"it must be even and at most the head's {head_size}, got {rotated}"
    must(not rotated % 2 and rotated <= head_size, "rope.dimension_count", text)
    values = count("attention.value_length", head_size)
    must(values == head_size, "attention.value_length", f"it must be the keys', {head_size}, got {values}")
    experts = model.get(f"{family}.expert_count", int, 0, least=0)
    used = model.get(f"{family}.expert_used_count", int, 0, least=0)
    must(not experts or 1 <= used <= experts, "expert_used_count", f"it must be 1 to {experts}, got {used}")
    scaled = width / heads if layers == special.get("large") else head_size
    sights, sight_of = _sights(model, family, layers)
    return Architecture(
        family, layers, width, heads, key_heads, head_size, rotated,
        paired=special.get("paired", False),
        context=count("context_length"),
        epsilon=model.get(f"{family}.attention.layer_norm_rms_epsilon", float, least=0),
        attention_scale=scaled**-0.5,
        attention_cap=number("attn_logit_softcapping", 0.0),
        logit_cap=number("final_logit_softcapping", 0.0),
        embedding_scale=width**0.5 if special.get("scaled") else 1.0,
        gelu=special.get("gelu", False),
        experts=experts,
        experts_used=used,
        shares_sum_to_one=special.get("shares_sum_to_one", True),
        short_context=count("rope.scaling.original_context_length", 1 << 62),
        rotation_scale=number("rope.scaling.attn_factor", 1.0),
        sights=sights,
        sight_of=sight_of,
    )  # fmt: skip


def _sights(model: GGUF, family: str, layers: int) -> tuple[tuple[Sight, ...], tuple[int, ...]]:
    """How blocks see: all alike, or all but each last of a period through a window."""
    scaling = f"{family}.rope.scaling.type"
    kind = model.get(scaling, str, "none")
    if kind not in ("none", "linear", "longrope"):
        raise model.wrong(scaling, f"positions are scaled by none, linear or longrope, got {kind!r}")
    divisor = 1.0
    if kind == "linear":
        divisor = model.get(f"{family}.rope.scaling.factor", float, least=1e-6)
    base = model.get(f"{family}.rope.freq_base", float, 10000.0, least=1e-6)
    window = min(model.get(f"{family}.attention.sliding_window", int, 0, least=0), FARTHEST) or None
    period, local = FAMILIES[family].get("period"), FAMILIES[family].get("local_base")
    if window is None or period is None:
        return (Sight(base, divisor, window),), (0,) * layers
    near = Sight(base, divisor, window)
    if local is not None:
        near = Sight(model.get(f"{family}.rope.freq_base_swa", float, local, least=1e-6), 1.0, window)
    return (near, Sight(base, divisor, None)), tuple(int(n % period == period - 1) for n in range(layers))
