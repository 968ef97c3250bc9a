"""Triton's interpreter: made to compute as a GPU does, and with a debugger.

`emulation` replaces functions of Triton's interpreter in this process; `debugger` stops in a kernel that runs there and
shows its values. Nothing here judges a result. Imports base; `debugger`, `frames` and `launch` import triton, so they
are imported only after `emulation.enable_interpreter`.
"""
