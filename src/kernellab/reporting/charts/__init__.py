"""Sweeps found in a record, told, drawn and written to files."""
