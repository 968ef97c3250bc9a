"""Runs what a command requests, in separate processes.

Settings come in; events go into the journal. `parent` plans and supervises in the process of the command; `worker`
executes op files in a child process; `protocol` declares the commands and events between the two; `processes` starts
and ends child processes; `programs` are child processes of other kinds. `parent`, `protocol` and `processes`
import no torch. Verdicts are computed in `record`; nothing here prints.
"""
