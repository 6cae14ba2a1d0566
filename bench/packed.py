"""Products of many shapes with packed weights, by rows of x: processor time of one thread, least of many, in turns.

PYTHONPATH=. HOLOGRAM_CPU_THREADS=1 python bench/packed.py smollm
PYTHONPATH=. HOLOGRAM_CPU_THREADS=1 python bench/packed.py Q4_K 2048 2048 --rows 1,16,64

`smollm` is a token of SmolLM2-135M: 30 layers of four products in Q4_1 and the head in Q8_0, random, 96 MB. Otherwise
as many matrices of one format and shape as have 60 M weights. `--wall` takes the clock's time, for several threads.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import hologram as hg
from tests.packed.blocks import blocks

LAYER = ((960, 576), (576, 576), (3072, 576), (576, 1536))
MANY = 60_000_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="+", help="smollm, or a format, rows and columns")
    parser.add_argument("--rows", default="1,2,4,8,16,64")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--wall", action="store_true")
    arguments = parser.parse_args()
    executor, rng = hg.Executor("cpu"), np.random.default_rng(0)

    def made(kind: str, rows: int, columns: int) -> hg.Packed:
        return hg.Packed.from_gguf(blocks(rng, kind, rows, columns), kind, (rows, columns), executor)

    if arguments.what == ["smollm"]:
        matrices = [made("Q4_1", *shape) for _ in range(30) for shape in LAYER]
        matrices.append(made("Q8_0", 49152, 576))
    else:
        kind, shape = arguments.what[0], [int(x) for x in arguments.what[1:]]
        matrices = [made(kind, *shape) for _ in range(max(1, MANY // (shape[0] * shape[1])))]
    function = hg.jit(lambda xs: [hg.linear(xs[str(m.columns)], m) for m in matrices])
    rows = [int(x) for x in arguments.rows.split(",")]
    widths = {m.columns for m in matrices}
    given = {
        m: {str(k): executor.tensor(rng.normal(0, 1, (m, k)).astype(np.float32)) for k in widths}
        for m in rows
    }
    clock = time.perf_counter if arguments.wall else time.process_time
    best = dict.fromkeys(rows, float("inf"))
    for turn in range(arguments.turns + 2):  # first with compiling
        for m in rows:
            begun = clock()
            function(given[m])
            executor.synchronize()
            if turn > 1:
                best[m] = min(best[m], clock() - begun)
    print("  ".join(f"{m}: {s * 1e3:.1f} ms ({s / best[rows[0]]:.2f})" for m, s in best.items()))


if __name__ == "__main__":
    main()
