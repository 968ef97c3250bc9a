"""Records what a program does, inside the program's own process: ranges, steps, recordings and their traces.

In: a request (`protocol`) and the program's own calls of `kl.range` and `kl.step`. Out: Chrome traces and a session
report for the parent. Imports base, and declaration.documents for the types of requests. `protocol`, `schedule`,
`signals` and `recording_limits` import no torch: the parent uses the first two, and a profiled script decides itself
when torch is imported.
"""
