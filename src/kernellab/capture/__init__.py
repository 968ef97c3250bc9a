"""Captures an implementation's own kernel launches without a GPU.

A function and its arguments on meta tensors come in; captured launches with their PTX and cubins go out, for any
architecture. `standin_gpu` chooses the product whose properties torch and Triton see. `standin_torch` and
`standin_triton` answer in place of torch.cuda and Triton's driver, and `recorder` records what is launched. `inductor`
does the same for torch.compile; `op_file` exports its kernels. `launch` has the resulting data and imports no torch.
Imports base, build, declaration, machine and machinecode. Nothing is computed and nothing is timed.
"""
