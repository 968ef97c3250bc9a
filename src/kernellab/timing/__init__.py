"""How fast an implementation is: windows, interleaved rounds, timers, and the machine's measured rates.

Comes in: an implementation as calls on input sets, a timer, a plan of when to stop. Goes out: samples in microseconds,
with what is known about the warm-up and the looks. Conclusions are drawn in `stats` and `record`. Imports base, build,
declaration, machine and stats; the modules that the process of the command reads (`timer`, `window`, `host_loop`, the
timers) import torch only inside functions.
"""
