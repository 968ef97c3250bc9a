"""Numbers and sentences as people read them, fitted to a terminal."""
