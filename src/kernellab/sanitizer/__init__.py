"""NVIDIA compute-sanitizer."""
