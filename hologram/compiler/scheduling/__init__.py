"""How the lanes of a program map to threads, and long rows to slices."""
