"""What `klab profile` does: choose a program, record it, count its launches, open traces that exist."""
