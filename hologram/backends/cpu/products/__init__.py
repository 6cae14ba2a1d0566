"""Matrix products through the BLAS that NumPy has loaded."""
