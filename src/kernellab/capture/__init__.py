"""An implementation's own launches without a GPU."""
