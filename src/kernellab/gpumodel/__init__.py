"""A GPU on paper: occupancy, waves, roofline, fusion, and how long a kernel should take by a model of the GPU.

In: numbers of a kernel (launch, registers, instructions), of an op (bytes, operations) and of a GPU. Out: plain
dataclasses with the predicted numbers. `Subject` holds all that is known of one implementation at one case. The package
depends on no record and no profiler. Imports base, machine and the JSON types of declaration; no torch.
"""
