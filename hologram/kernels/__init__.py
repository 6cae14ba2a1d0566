"""Kernels in plain Python: a function with annotations is read, typed, and written as Atlas programs."""
