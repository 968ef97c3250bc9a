"""What a worker process does: it loads op files, checks, times and inspects, and reports events."""
