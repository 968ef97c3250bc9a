"""Why a kernel is as fast as it is: what fits on a multiprocessor, how a grid fills the GPU."""
