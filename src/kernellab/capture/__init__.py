"""Captures an implementation's own kernel launches without a GPU.

In: a function and its arguments on meta tensors. Out: captured launches with their PTX and cubins, for any
architecture. `standin_gpu` chooses the product whose properties torch and Triton see. `standin_torch` and
`standin_cuda` answer in place of torch, `standin_triton` and `standin_driver` in place of Triton's driver, and
`recorder` records the launches. `inductor` does the same for torch.compile; `op_file` exports its kernels. `launch`
has the resulting data and imports no torch.
Imports base, build, declaration, machine and machinecode. Nothing is computed and nothing is timed.
"""
