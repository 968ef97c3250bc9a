"""Processes of another kind, one module each with a `main`."""
