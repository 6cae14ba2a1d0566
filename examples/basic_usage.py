"""The first ten minutes: tensors, views, reductions, a compiled function and a derivative, as in NumPy and JAX.

python examples/basic_usage.py --backend webgpu prints what each line gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import hologram as hg
from hologram.demo.gallery import run


@hg.jit
def wave(x: Any, frequency: Any) -> Any:
    """Traced once, then one kernel."""
    return hg.exp(-x * x) * hg.cos(frequency * x)


def area(frequency: Any, x: Any) -> Any:
    """The integral of the wave by the trapezoidal rule."""
    y = wave(x, frequency)
    return hg.sum((y[1:] + y[:-1]) * (x[1:] - x[:-1])) / 2


def main(points: int = 2001) -> None:
    table = hg.asarray(np.arange(12.0, dtype=np.float32)).reshape(3, 4)  # from NumPy, and
    print("to NumPy:", np.asarray(table).tolist())
    print("views share memory:", table.T[1:, ::2].tolist())
    table[table > 6] = 0
    print("masks, in place:", table.tolist())
    print("along an axis:", table.sum(axis=1).tolist(), table.argmax(axis=0).tolist())
    print("products:", (table @ table.T).tolist())
    print("dtypes promote as in NumPy:", (table.astype("int32") * 2.5).dtype)

    x, two = hg.linspace(-6.0, 6.0, points), hg.asarray(2.0)
    total, slope = hg.jit(hg.value_and_grad(area))(two, x)
    print(f"the area is {total.item():.6f}, of which {wave.dispatches(x, two)} kernel computes the wave")
    print(f"the formula says {np.sqrt(np.pi) / np.e:.6f}")  # sqrt(pi) exp(-f^2 / 4) at f = 2
    print(f"its derivative is {slope.item():.6f}, minus as much")


if __name__ == "__main__":
    run(main)
