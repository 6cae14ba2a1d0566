"""Matrices taken apart, and what is solved by their factors."""
