"""From Atlas programs to source text; knows no backend."""
