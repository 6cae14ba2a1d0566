"""Adapters of the operators that layers of neural networks are made of."""
