"""Right or wrong: each way against a float64 oracle, with PyTorch's own error as the yardstick."""
