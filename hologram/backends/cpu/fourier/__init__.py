"""Discrete Fourier transforms as code of the CPU's own."""
