"""How much energy a call takes: counters of the machine, calls in a row, and blocks that interleave implementations.

In: implementations as calls on input sets. Out: joules per call, one for each block. Verdicts are computed in `record`.
Imports base, machine and timing; torch only where calls run on a GPU.
"""
