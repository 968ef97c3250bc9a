"""Building and launching hand-written code: CUDA C++ through NVRTC or nvcc, C++ through the system compiler."""
