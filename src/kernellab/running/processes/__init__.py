"""Child processes: how they are started, supervised and ended.

In: a command, or the `main` of a module of kernellab. Out: a process that ends when its parent does, with everything
it has started. `startup` writes the command, `child` starts it under `supervisor`; `worker_process` speaks with a
worker; `compile_cache` keeps torch.compile's cache free of what a killed worker half wrote.
Imports base and running.protocol; no torch.
"""
