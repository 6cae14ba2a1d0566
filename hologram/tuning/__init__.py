"""Choices by measurement: what can be tuned, the tuner, and the choices kept on disk."""
