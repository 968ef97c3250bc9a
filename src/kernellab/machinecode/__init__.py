"""Machine code as data: PTX, SASS and cubins parsed, and the class of work each instruction belongs to.

In: text or bytes (PTX from a compiler, a cubin, a disassembly). Out: modules, kernels and instructions; text that
cannot be parsed is listed as problems instead of raising. `assembler` and `cubin` run NVIDIA's `ptxas` and `nvdisasm`.
Nothing is analysed or explained here: `codeanalysis` and `ptxwords` do that. Imports base and machine; no torch, no
triton, so that the parent process can use it.
"""
