"""What is missing on this machine, and how well it measures.

`installation` looks for tools and packages. The `aa` modules run an op whose implementations differ by known amounts,
in processes of their own, and count the verdicts. In: nothing but options. Out: components found or
missing; a summary of A/A runs. Imports base, machine, record and running.processes; torch only in the
probe that looks for it, and in the op, which a worker executes.
"""
