"""Triton's interpreter: made to compute as a GPU does, and with a debugger.

`emulation` replaces functions of Triton's interpreter in this process, with `language`, `libdevice`, `atomics`,
`tuning` and `jit_functions`; `pretended_gpu` is the GPU that wrappers see meanwhile, and `fault` tells what the
interpreter cannot do from a kernel's own errors. `debugger` stops in a kernel that runs there and shows its values.
Nothing here judges a result. Imports base, capture, machine and trials; `debugger`, `frames` and `launch` import
triton, so they are imported only after `emulation.enable_interpreter`.
"""
