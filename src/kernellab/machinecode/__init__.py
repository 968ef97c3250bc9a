"""What kernels compiled to: PTX and SASS read, counted, put into words and compared."""
