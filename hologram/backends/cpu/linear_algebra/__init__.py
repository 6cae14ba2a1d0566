"""Matrices taken apart by LAPACK: NumPy's, and SciPy's where that is installed."""
