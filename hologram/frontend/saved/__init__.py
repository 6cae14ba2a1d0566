"""Saved programs: what hg.jit traced, in a file that runs on any backend without the function."""
