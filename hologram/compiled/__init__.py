"""What devices that compile their kernels have in common."""
