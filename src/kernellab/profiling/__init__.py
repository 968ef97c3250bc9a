"""Where the time goes: questions asked of a trace, one module each. No torch."""
