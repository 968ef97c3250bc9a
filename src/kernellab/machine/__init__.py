"""What this machine is: its versions, CPU, GPU, caches, memory and tools, and what it does while something is timed.

In: a device, or the name of a product. Out: facts for the record, telemetry for trust, peaks for plausibility. Imports
base; only `memory` and `gpu_state` import torch.
"""
