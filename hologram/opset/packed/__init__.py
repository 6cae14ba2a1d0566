"""Weights kept packed: blocks of codes with scales, what they mean, and products that read them as they lie."""
