"""The programs of examples/loops and examples/transforms beside JAX, which runs the same files: first calls and others.

A file is read with JAX's functions under the names of hologram's. Everyone runs in processes of its own; a first call
traces and compiles, with an empty cache.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from hologram.benchmark.start import fresh
from hologram.benchmark.suites import Goal, Result, Suite, result
from hologram.benchmark.timing import NoTime, Pace

EXAMPLES = Path(__file__).parents[2] / "examples"
# The file, the function, and how large its inputs are.
WORKS = {
    "edit_distance": ("distances", 128),
    "kalman_filter": ("filtered", 1000),
    "heat": ("spread", 256),
    "n_body": ("advance", 128),
    "hamiltonian": ("sampled", 256),
    "adaptive_ode": ("solved", 1000),
    "ctc_loss": ("loss_and_slope", 150),
    "viterbi": ("likeliest", 200),
    "many_models": ("slopes", 1000),
    "per_example": ("lengths", 256),
    "rosenbrock": ("curvature", 256),
}
GOAL = Goal(ratio=1.5)
CALLS = 20
PROGRAM = """
import json, re, sys, time, types
import numpy as np
who, backend, file, name, size, calls = sys.argv[1:]
source = open(file, encoding="utf-8").read()
if who == "jax":
    import jax
    import jax.numpy as jnp
    class Names(types.ModuleType):
        def __getattr__(self, name):
            places = jnp, jax, jax.lax, jax.nn
            return next(getattr(place, name) for place in places if hasattr(place, name))
    hg = sys.modules["hologram"] = Names("hologram")
    hg.scan, hg.map, hg.random = jax.lax.scan, jax.lax.map, jax.random
    hg.cummin = lambda x, axis: (jax.lax.cummin(x, axis=axis), None)
    source = re.sub(r", device=[\\w.]+", "", source)
    tensor, settled = jnp.asarray, jax.block_until_ready
else:
    import hologram as hg
    ex = hg.Executor(backend)
    hg.set_default_executor(ex)
    tensor, settled = ex.tensor, lambda made: ex.synchronize()
module = types.ModuleType("example")
exec(compile(source, file, "exec"), vars(module))
given = [tensor(x) for x in module.inputs(int(size))]
if name == "sampled":
    given = [hg.random.key(0), *given]
settled(tensor(np.zeros(2, np.float32)) + 1)
times = []
for _ in range(1 + int(calls)):
    start = time.perf_counter()
    made = getattr(module, name)(*given)
    settled(made)
    times.append(time.perf_counter() - start)
first = made
while isinstance(first, (tuple, list)):
    first = first[0]
print(json.dumps([times, float(np.asarray(first, np.float64).mean())]))
"""


def own_rows(backend: str, pace: Pace) -> Iterator[Result]:
    """Two rows a program: the first call, and the median of the others."""
    for row, (name, size) in WORKS.items():
        first: dict[str, list[float]] = {}
        others: dict[str, list[float]] = {}
        missing: dict[str, str] = {}
        means: dict[str, float] = {}
        for _ in range(pace.turns):
            for who in ("hologram", "jax"):
                if who in missing:
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        times, means[who] = fresh(
                            PROGRAM,
                            who,
                            backend,
                            str(next(EXAMPLES.glob(f"*/{row}.py"))),
                            name,
                            str(size),
                            str(CALLS),
                            cache=folder,
                        )
                    except NoTime as why:
                        missing[who] = str(why)
                        continue
                first.setdefault(who, []).append(times[0])
                others.setdefault(who, []).append(median(times[1:]))
        if len(means) == 2 and row != "hamiltonian":  # whose random numbers differ
            ours, theirs = means.values()
            if abs(ours - theirs) > 1e-3 * abs(theirs) + 1e-6:
                missing["hologram"] = f"wrong result: its mean is {ours}, not {theirs}"
                for taken in (first, others):
                    taken.pop("hologram")
        yield result(f"{row}, first call", str(size), first, missing, GOAL, "hologram")
        yield result(row, str(size), others, missing, GOAL, "hologram", in_mean=True)


SUITES = (Suite("loops", "", own_rows=own_rows, geometric_mean=1.5),)
