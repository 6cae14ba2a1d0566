"""Whole programs, as people run them: other inputs at every step, and the same declaration for everyone."""
