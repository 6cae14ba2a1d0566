"""Peers beside those that `hologram.benchmark` knows: a module each, which `open_contender(name, where)` opens."""

MODULES = {name: f"bench.contenders.with_{name}" for name in ("numba", "numexpr", "tinygrad", "taichi")}
MODULES |= {"taichi cpu": MODULES["taichi"], "hologram kernels": "bench.contenders.with_kernels"}
