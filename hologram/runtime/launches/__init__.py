"""Launches of an executor: prepared once by structure, told their memory at each call."""
