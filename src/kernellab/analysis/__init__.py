"""Questions asked of a trace, one module each; no torch."""
