"""Child processes other than workers, one module each with a `main`: they run an op or a script under a tool.

Comes in: command-line arguments, for most of them a request as JSON. Goes out: files or lines that the process which
started the program reads. Imports base, checking, declaration, doctor, interpreter, machine, profiler, record,
sanitizer, trials, workloads, `running.parent` and `running.worker`; most need torch.
"""
