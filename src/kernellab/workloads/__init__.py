"""Programs to profile and count: the MLP, and a kernel that takes a grid of any size.

In: sizes and settings (`mlp_setup`, which imports no torch). Out: a training result, or a tensor. Imports base and
profiler; no op is declared here.
"""
