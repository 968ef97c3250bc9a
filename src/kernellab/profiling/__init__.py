"""Where the time goes: questions asked of a trace. No torch."""
