"""Records in the terminal."""
