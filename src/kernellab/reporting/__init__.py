"""Showing what a record says. Reads records and verdicts only; never imports torch."""
