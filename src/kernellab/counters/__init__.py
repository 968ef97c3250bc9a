"""Nsight Compute's counters for a program's launches.

In: the CSV pages of ncu's reports (`ncu_pages`). Out: tables, a row for each launch and for each implementation
(`tables`), which become counters.json and counters.csv. Imports base, declaration.documents, gpumodel, machine and
profiler.protocol; no torch.
"""
