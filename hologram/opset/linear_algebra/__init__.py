"""Linear algebra: what takes matrices apart, and what is solved by their factors."""
