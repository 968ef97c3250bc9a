"""What an implementation is tried with."""
