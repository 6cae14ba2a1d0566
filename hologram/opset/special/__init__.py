"""Special functions: those that sums, products and exponentials do not express in closed form."""
