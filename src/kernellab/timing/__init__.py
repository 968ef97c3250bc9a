"""How fast an implementation is: windows, interleaved rounds, timers, and the machine's measured rates.

In: an implementation as calls on input sets, a timer, a plan of when to stop. Out: samples in microseconds,
and how the warm-up and the looks went. Verdicts are computed in `stats` and `record`. Imports base, build,
declaration, machine and stats; the modules that the process of the command reads (`timer`, `window`, `host_loop`, the
timers) import torch only inside functions.
"""
