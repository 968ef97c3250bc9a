"""The verbs of `klab`, one module each."""
