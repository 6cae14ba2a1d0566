"""Attention in one kernel: a softmax that is corrected as it goes, so that no table of scores is stored.

python examples/kernels/attention.py --backend cpu writes attention.png: what is looked at, far and near.

hologram's own `hg.scaled_dot_product_attention` is faster; this shows how such kernels are made. The running softmax is
that of Milakov and Gimelshein (2018), the tiles those of FlashAttention (Dao et al. 2022).
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from pathlib import Path

import numpy as np

import hologram as hg
from hologram.demo.colours import coloured, enlarged
from hologram.demo.gallery import run

WIDTH = 64  # features of a head
TILE = 32  # keys that a workgroup loads together, and its threads: a query each


@hg.kernel(workgroup=TILE)
def attend(
    q: hg.Array[hg.f32, 3],
    k: hg.Array[hg.f32, 3],
    v: hg.Array[hg.f32, 3],
    out: hg.Array[hg.f32, 3],
    scale: hg.f32,
    causal: hg.bool,
):
    """softmax(scale q k^T) v of each head; (heads, length, 64). A workgroup has 32 queries of one head."""
    t = hg.thread_index()
    queries, keys = q.shape[1], k.shape[1]
    tiles = (queries + TILE - 1) // TILE
    head, i = hg.workgroup_index() // tiles, hg.workgroup_index() % tiles * TILE + t
    near_k, near_v = hg.shared((TILE, WIDTH), hg.f32), hg.shared((TILE, WIDTH), hg.f32)
    query, total = hg.local(WIDTH, hg.f32), hg.local(WIDTH, hg.f32)
    if i < queries:
        for c in range(WIDTH):
            query[c] = q[head, i, c] * scale
    highest, weights = -1e30, 0.0
    for first in range(0, keys, TILE):
        for c in range(WIDTH):
            near_k[t, c] = k[head, first + t, c] if first + t < keys else 0.0
            near_v[t, c] = v[head, first + t, c] if first + t < keys else 0.0
        hg.barrier()
        for j in range(min(TILE, keys - first)):
            score = 0.0
            for c in range(WIDTH):
                score += query[c] * near_k[j, c]
            seen = not causal or first + j <= i
            top = max(highest, score) if seen else highest
            kept, weight = hg.exp(highest - top), hg.exp(score - top) if seen else 0.0
            highest, weights = top, weights * kept + weight
            for c in range(WIDTH):
                total[c] = total[c] * kept + weight * near_v[j, c]
        hg.barrier()
    if i < queries:
        for c in range(WIDTH):
            out[head, i, c] = total[c] / weights


def attention(
    executor: hg.Executor, q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool = False
) -> np.ndarray:
    """softmax(q k^T / 8) v of each head. With `causal` a query sees the keys up to its own place."""
    out = executor.empty(q.shape)
    heads, queries, _ = q.shape
    lanes = heads * -(-queries // TILE) * TILE
    attend[lanes](*map(executor.tensor, (q, k, v)), out, WIDTH**-0.5, causal)
    return out.to_numpy()


def main(length: int = 128, output: Path = Path("attention.png")) -> None:
    """Three heads: near, nearer, and some places back. A value of 1 at one key each shows the weights themselves."""
    at, turns = np.arange(length)[:, None], 0.7 ** np.arange(WIDTH // 2)
    panels = []
    for sharp, back in ((1.0, 0), (2.0, 0), (2.0, 24)):
        k, q = (
            (sharp * np.concatenate([np.cos(angle), np.sin(angle)], axis=1)).astype(np.float32)
            for angle in (at * turns, (at - back) * turns)
        )
        parts = []
        for first in range(0, length, WIDTH):  # a head has 64 values: so many keys at a time
            v = np.eye(length, dtype=np.float32)[:, first : first + WIDTH]
            v = np.pad(v, ((0, 0), (0, WIDTH - v.shape[1])))
            parts.append(attention(hg.default_executor(), q[None], k[None], v[None], causal=True)[0])
        weights = np.concatenate(parts, axis=1)[:, :length]
        panels.append(coloured(weights**0.5, 0, 0.7))
    enlarged(np.concatenate(panels, axis=1), 768).save(output)
    print(f"{output}: who looks at whom, in three heads")


if __name__ == "__main__":
    run(main)
