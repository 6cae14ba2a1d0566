"""Plans over hand-written kernels: products, convolutions, sorting."""
