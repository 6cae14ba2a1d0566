"""Models that are measured, each declared once, and what carries them out: hologram, NumPy with gradients, PyTorch."""
