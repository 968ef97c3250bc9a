"""Profiles for the terminal: sentences first, then tables.

In: documents of `analysis` and of `counters`, reports of profiling sessions, times of the MLP over sizes. Out: lines of
text. Imports analysis, counters, findings, profiler.protocol and traces (for types), stats, workloads.mlp_setup, base
and reporting.text; no torch.
"""
