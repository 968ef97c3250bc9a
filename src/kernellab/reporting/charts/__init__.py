"""Sweeps, rooflines and sawteeth: found in a record, put into words, drawn and written to files.

In: derived records. Out: tables and charts in the terminal, CSV, JSON, PNG and SVG files. Imports base, stats, record
and reporting.text; matplotlib and plotext where they are installed; no torch.
"""
