"""What an implementation does besides computing: compiling, tuning, allocating, copying, waiting, moving bytes.

In: a call, or the compilers of this process. Out: events of the compilation log, an autotuner's choices, counts and
kernels of one profiled call, bytes per operator. It also makes autotuned kernels run without tuning. Imports base,
build, traces and traceview; torch and Triton are hooked when they are imported.
"""
