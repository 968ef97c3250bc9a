"""What a kernel's code does: loops, lanes, facts."""
