lu_steps = solve_steps = inverse_steps = determinant_steps = slogdet_steps = None
