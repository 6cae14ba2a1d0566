"""Weights kept packed: how formats store them (formats.py), and what reads them as they are (reading.py)."""
