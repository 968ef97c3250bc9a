"""Pages and pictures that need no network."""
