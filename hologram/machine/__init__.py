"""What a device is and what it is asked for: limits, layouts, plans, kernels."""
