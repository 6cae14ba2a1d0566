"""Products with packed weights: codes multiplied as integers for few rows, made floats slab by slab for many."""
