"""Tensors of PyTorch and hologram over one memory, and how they come from elsewhere and go there."""
