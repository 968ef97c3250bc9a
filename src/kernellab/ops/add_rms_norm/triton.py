"""RMS norm of a sum in Triton: the arithmetic of ../rms_norm; ../norms_triton.py adds the residual."""

from kernellab.ops.rms_norm.triton import RMS_NORM as ADD_RMS_NORM

__all__ = ["ADD_RMS_NORM"]
