"""Same work, one run: hologram's time beside each installed peer's.

    python bench/peers.py --suite NAME [--json FILE] [--rows add,exp] [--sizes 1K,1M] [--quick] [--before CHECKOUT]
                          [--who "hologram jit,torch"] [--backend webgpu]
    python bench/peers.py --suite programs [--backend webgpu] [--rows llama_static,lstm_step] [--steps 1000]

How the times are taken, and what the goals are: docs/benchmarks.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `bench`, and a checkout's own `hologram`

if (
    __name__ == "__main__"
):  # processes import this file: one that measures another checkout may not meet our hologram
    from bench.contenders import MODULES
    from bench.suites import SUITES
    from hologram.benchmark.beside import main

    main(SUITES, MODULES)
