"""Whether the values of a result are right."""
