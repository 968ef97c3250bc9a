"""Why an implementation is as fast as it is, what would make it faster, and which implementation to choose.

In: a record with its verdicts. Out: for each implementation and case its roofline, predicted time and ranked findings,
and a table of the implementations to choose from, as plain data. The rules are in `rules/`, a file each. Imports
findings, gpumodel, machinecode, machine and base; no torch, and nothing is run.
"""
