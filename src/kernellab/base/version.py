"""The version of kernellab, stamped on every record."""

VERSION = "0.1.0"
