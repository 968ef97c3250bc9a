"""Static analysis of kernels: what their machine code does and what it needs, without running it.

In: PTX, SASS and cubins parsed by `machinecode`. Out: typed facts (registers, spills, instruction mix, loops and their
trip counts, how a warp's accesses coalesce and conflict), remarks, and the difference of two kernels. `kernel_json`
describes the JSON of these facts for the record and its readers. Imports base and machinecode; no torch. `explaining`
judges whether a fact costs time.
"""
