"""A trace seen as a program: nested calls, steps, which call launched which kernel, and the user's source lines.

In: a `Trace`. Out: a `View`, with trees of rows, the GPU's work and its launching calls, and the program's steps;
`Places`, which finds the user's line for a moment of a thread; `ProfilerOverhead`, which removes the profiler's own
time. The package answers no question about performance: analysis does. Imports base, traces, findings (places); no
torch.
"""
