"""`python -m kernellab` is `klab`, for machines where the package is not installed."""

from kernellab.cli import main

main()
