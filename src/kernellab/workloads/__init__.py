"""Programs worth profiling."""
