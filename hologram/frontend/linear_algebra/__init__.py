"""The functions of `hg.linalg`, which the module of that name gathers."""
