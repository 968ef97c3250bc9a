"""Two sides, each one run or several: which results became faster, slower or wrong.

In: records. Out: pairs of results with a verdict each, changed statuses, and warnings. A verdict rests on the samples,
on how much times vary from run to run on that machine, and on the number of pairs. Imports record, machine and stats;
no torch, no terminal.
"""
