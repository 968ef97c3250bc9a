"""Questions about a trace, one module each: where the time goes, what waits for what, what a step could gain.

In: a `Trace`. Out: plain documents, declared as TypedDicts in the module that builds them; `document.analyse` combines
them into the document of `klab profile --json`. The text of findings is written here, other text in reporting.
Imports base, traces, traceview, findings and machinecode (names of kernels); no torch.
"""
