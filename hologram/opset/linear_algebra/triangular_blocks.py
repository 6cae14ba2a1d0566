cholesky_steps = None
substitution_steps = None
