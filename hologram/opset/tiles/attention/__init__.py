"""How attention runs: what it is asked, the ways of it, and what each does."""
