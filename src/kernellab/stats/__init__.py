"""How certain a number is: intervals, verdicts on ratios, growth with size, and whether a time can be trusted.

Comes in: numbers. Goes out: intervals, verdicts and reasons. Imports nothing of kernellab but base, and no torch.
"""
