"""What every package may use: user errors, tracebacks of the user's own code, import hooks, cache folders, printable
text, JSON types and messages.

Imports nothing of kernellab, and no torch.
"""
