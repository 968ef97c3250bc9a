"""What every package may use: user errors, tracebacks of the user's own code, import hooks, cache folders, printable
text, JSON types, messages, and the base of what observes torch's operators.

Imports nothing of kernellab, and no torch but in `operator_mode`.
"""
