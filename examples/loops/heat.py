"""Heat that spreads in a plate whose edges are kept cold: a stencil, a loop of steps.

python examples/loops/heat.py webgpu
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import hologram as hg

SHARE = 0.2  # of the difference to its neighbours that a place takes over in a step; stable below 1/4
STEPS = 500


@hg.jit
def spread(plate: Any) -> Any:
    """The temperatures (n, m) after STEPS steps; what lies outside is 0."""

    def step(_: Any, x: Any) -> Any:
        wide = hg.pad(x, ((1, 1), (1, 1)))
        around = wide[2:, 1:-1] + wide[:-2, 1:-1] + wide[1:-1, 2:] + wide[1:-1, :-2]
        return x + SHARE * (around - 4 * x)

    return hg.fori_loop(0, STEPS, step, plate)


def inputs(size: int) -> tuple[np.ndarray, ...]:
    """A plate with a hot square."""
    plate = np.zeros((size, size), np.float32)
    plate[size // 4 : size // 2, size // 4 : size // 2] = 1
    return (plate,)


if __name__ == "__main__":
    (plate,) = inputs(64)
    after = spread(hg.Executor(*sys.argv[1:]).tensor(plate)).to_numpy()
    print(
        f"of {plate.sum():.0f} units of heat {after.sum():.1f} are left, at most {after.max():.3f} in a place"
    )
    for line in after[::8, ::4]:
        print("".join(" .:-=+*#%@"[min(9, int(x * 40))] for x in line))
