"""NVIDIA compute-sanitizer.

A battery comes in, and the trials to run under the tool go out; a tool's printed report comes in, and typed findings go
out: kernel, source line, trial. `kernellab.running` starts the processes. Imports declaration and trials; no torch,
because the parent process reads the reports.
"""
