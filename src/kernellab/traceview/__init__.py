"""A trace as a program: rows that nest, steps, who started what, and where in the source."""
