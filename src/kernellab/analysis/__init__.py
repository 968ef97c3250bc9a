"""Questions about a trace, one module each: where the time goes, what waits for what, what a step could gain.

In: a `Trace`. Out: plain documents, described by the TypedDicts of the module that makes them; `document.analyse` joins
them into the one of `klab profile --json`. Words for the terminal are made in reporting, those of findings here.
Imports base, traces, traceview, findings and machinecode (names of kernels); no torch.
"""
