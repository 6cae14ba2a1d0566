"""PyTorch's own database of operators, run on the device."""
