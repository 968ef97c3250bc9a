"""What an implementation is tried with.

An op's declaration comes in; trials (plain data) go out and, for a trial and a seed, its input tensors in guarded
memory. Nothing here calls an implementation or judges a result. Imports base and declaration. The modules that the
parent process uses (`trial`, `calls`, `domain`, `selection`, `small_cases`, `pairwise`) do not import torch.
"""
