"""Newton's method on Rosenbrock's function, by its gradient and Hessian.

python examples/transforms/rosenbrock.py webgpu
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import hologram as hg


def rosenbrock(x: Any) -> Any:
    """A long curved valley, least where all of x are 1 (Rosenbrock 1960)."""
    return hg.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


slope, curvature = hg.jit(hg.grad(rosenbrock)), hg.jit(hg.hessian(rosenbrock))


def inputs(size: int) -> tuple[np.ndarray, ...]:
    """A place to begin at."""
    return (np.random.default_rng(0).uniform(0.9, 1.1, size).astype(np.float32),)


if __name__ == "__main__":
    (x,) = map(hg.Executor(*sys.argv[1:]).tensor, inputs(16))
    for _ in range(20):
        x = x - hg.linalg.solve(curvature(x), slope(x))
    print(
        f"after 20 steps {rosenbrock(x).item():.1e}, and at most {abs(x - 1).max().item():.1e} from its least"
    )
