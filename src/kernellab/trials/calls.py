"""The names of the call variants: how a trial calls an implementation. Records store these names. No torch."""

from __future__ import annotations

PLAIN = "plainly"
TWICE = "twice"
LARGE_NEIGHBOURS = "beside large numbers"  # large numbers instead of NaN in the memory around the inputs
SIDE_STREAM = "on a side stream"
CUDA_GRAPH = "in a CUDA graph"
REGISTERED_OP = "as a registered op"
BACKWARD_TWICE = "backward twice"
GRADCHECK = "gradcheck"
INTERLEAVED = "two forwards, then both backwards"
INFERENCE_MODE = "in inference mode"

FORWARD_VARIANTS = (TWICE, LARGE_NEIGHBOURS, INFERENCE_MODE, SIDE_STREAM, CUDA_GRAPH, REGISTERED_OP)
GPU_ONLY = (SIDE_STREAM, CUDA_GRAPH)
