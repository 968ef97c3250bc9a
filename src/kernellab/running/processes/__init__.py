"""Child processes: how they are started, supervised and ended.

In: a command, or the `main` of one of kernellab's modules. Out: a process that ends with its parent, like everything
it has started. `startup` writes the command, `child` starts it under `supervisor`; `worker_template` forks workers from
a process that has imported torch, `worker_process` exchanges messages with one; `compile_cache` removes files that a
killed worker left incomplete in torch.compile's cache.
Imports base, record and running.protocol; no torch.
"""
