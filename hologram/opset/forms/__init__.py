"""The forms operations are declared in: what one is, and how its kernels follow from it."""
