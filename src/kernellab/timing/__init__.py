"""How fast and how sure: timers, interleaved rounds, the machine's measured ceilings."""
