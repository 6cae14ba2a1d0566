"""Transcendental functions as arithmetic."""
