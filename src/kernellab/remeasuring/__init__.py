"""Measures again what a comparison could not resolve: both versions of the code in turn, in fresh processes.

In: a comparison, and where the two versions of the code are. Out: the comparison with new verdicts. Processes of one
version follow those of the other, in an order drawn at random for each pair of processes, so that what the machine does
meanwhile falls on both. The uncertainty is the scatter between these processes. Imports comparison, record and
running.processes; no torch.
"""
