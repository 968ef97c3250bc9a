"""The functions behind `kl.*`: benchmark, check, profile, ptx and helpers for notebooks.

In: a user's callables and ops, in the user's own process. Out: numbers and reports to read. Importing this package
imports nothing else; its modules may import torch.
"""
