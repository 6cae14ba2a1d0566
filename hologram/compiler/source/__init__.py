"""Programs and hand-written kernels as source text."""
