"""NVIDIA compute-sanitizer: which trials run under it, its command line, and its reports.

In: a battery, and what a tool printed. Out: the trials to run under the tool, and typed findings with kernel, source
line and trial. `kernellab.running` starts the processes. Imports base, declaration, record and trials; no torch,
because the parent process reads the reports.
"""
