"""Weights that stay packed: our own operators, and ATen's products with weights of few bits."""
