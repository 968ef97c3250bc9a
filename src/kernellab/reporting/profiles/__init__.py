"""Profiles for the terminal: sentences first, then tables.

In: documents that `analysis` computes from traces and counters, and the reports of profiling sessions. Out: lines of
text. Imports analysis (for the types of documents), profiler.protocol, stats, base and reporting.text; no torch.
"""
