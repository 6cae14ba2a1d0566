"""Peers beside those that `hologram.benchmark` knows: a module each, which `open_contender(name, where)` opens."""

MODULES = {name: f"bench.contenders.with_{name}" for name in ("numexpr", "tinygrad", "taichi")}
