"""The gallery of kernels (examples/kernels) as works: what goes in, and what NumPy makes of it."""
