"""Gradients: what a function does is recorded on a tape, and followed backwards."""
