"""How the suite runs: its profile, its order and its choice of tests."""
