"""The shipped ops as operators of torch.library, and the tables that choose the implementation behind each.

`kernellab.functional` and `kernellab.nn` call these. The operators of softmax, for example, are
`torch.ops.kernellab.softmax` and `torch.ops.kernellab.softmax_backward`.
"""
