"""Building hand-written code: CUDA C++ by NVRTC or nvcc, C++ by the system's compiler."""
