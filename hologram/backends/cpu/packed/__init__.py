"""Products of few rows with packed weights: code of our own that multiplies whole numbers."""
