"""What this machine is: its versions, CPU, GPU, caches, memory and tools, and what it does while something is timed.

Comes in: a device, or the name of a product. Goes out: facts for the record, telemetry for trust, peaks for
plausibility. Imports base; only `memory` imports torch.
"""
