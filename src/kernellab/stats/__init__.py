"""How sure: intervals, growth, and whether a time can be trusted. Numbers in, verdicts out; no torch."""
