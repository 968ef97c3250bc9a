"""Inside a profiled process: ranges, steps, and the one profiler that records them."""
