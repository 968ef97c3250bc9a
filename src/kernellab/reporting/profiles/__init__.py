"""Profiles in the terminal."""
