"""Detects implementations that cheat, or that change the process they share with others.

Comes in: an implementation that is about to run, and what it returned. Goes out: the reason why it is refused, notes,
and the restored state of the process. `integrity` compares kernellab's own code and the clocks with what they were
before op files ran, `global_state` the settings and functions of torch. `timing_guard` samples results while they are
timed, and `result_judge` judges them afterwards; `value_caches` finds implementations that remember results. Imports
the packages that declare, check and time; nothing of the worker around it.
"""
