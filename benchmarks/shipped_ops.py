"""Every shipped op in one file, so that one worker runs them all. For benchmarks/shipped.py."""

import kernellab.ops.add
import kernellab.ops.gelu
import kernellab.ops.matmul
import kernellab.ops.softmax
import kernellab.ops.square  # noqa: F401
