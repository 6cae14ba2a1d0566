"""Loops and choices inside compiled functions: their bodies are traced once, and run on the device."""
