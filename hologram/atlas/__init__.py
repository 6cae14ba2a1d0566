"""Atlas: a small typed SSA instruction set for per-lane programs."""
