"""What users call: Tensor and its operators, the executor, out-parameter functions, profiles, hg.jit."""
