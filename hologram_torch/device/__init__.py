"""The devices that PyTorch sees: which there are, which is current, their streams and random numbers."""
