"""Matrices of a few rows and columns: a lane takes one apart, so a stack of them is one launch."""
