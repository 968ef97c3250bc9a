"""What one run observed, kept so that nothing is lost, and what follows from it. No torch."""
