"""Runs over time: an index of run folders, the times of each implementation from run to run, and where they changed.

The folders of runs are the truth. The index is a cache: it is made anew where it is missing, damaged or of another
version. Imports the record and its verdicts, no torch.
"""
