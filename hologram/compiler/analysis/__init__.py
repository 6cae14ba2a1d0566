"""What follows from a program about its values: their ranges, their phases, what a driver may do to them."""
