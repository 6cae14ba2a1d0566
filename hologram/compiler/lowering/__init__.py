"""Rewrites of programs into what a device and its language can run."""
