"""Discrete Fourier transforms: of smooth lengths, of any, and of real numbers."""
