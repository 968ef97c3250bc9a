"""What the parent process does: it plans, starts workers, listens and writes the record. No torch."""
