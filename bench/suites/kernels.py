"""The gallery of kernels beside Taichi's and Numba's: on the CPU, and on WebGPU beside Taichi's Vulkan.

Each as its users write it (bench/contenders/taichi_gallery.py, numba_gallery.py). Simulations take four steps a call.
"""

from __future__ import annotations

from collections.abc import Iterator

from hologram.benchmark.suites import Goal, Row, Suite

AIM = Goal(ratio=0.8)
SIZES = {
    "life": (512, AIM),
    "lattice_boltzmann": (256, AIM),
    "ray_marcher": (240, AIM),
    "nbody": (2048, AIM),
    "material_points": (16384, AIM),
    "heat": (512, Goal()),
    "histogram": (1 << 20, Goal()),
    "reduction": (1 << 20, Goal()),
    "sparse_product": (50_000, Goal()),
    "smith_waterman": (64, Goal()),
    "tiled_product": (256, Goal()),
    "kernel_attention": (384, Goal()),
    "where_from": (256, Goal()),
}


def rows() -> Iterator[Row]:
    """A row a kernel; those with an aim count in the mean."""
    for work, (size, goal) in SIZES.items():
        yield Row(work, size, goal, in_mean=goal is AIM)


SUITES = (
    Suite("kernels", "cpu", "hologram kernels", ("taichi cpu", "numba"), rows),
    Suite("kernels-webgpu", "webgpu", "hologram kernels", ("taichi",), rows),
)
