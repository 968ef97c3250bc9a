"""Child processes other than workers, one module each with a `main`: they run an op or a script under a tool.

In: command-line arguments, for most programs a request as JSON. Out: files or lines that the process which
started the program reads. Imports base, checking, declaration, doctor, interpreter, machine, profiler, record,
sanitizer, trials, workloads, `running.parent` and `running.worker`; most need torch.
"""
