"""How certain a number is: intervals, verdicts on ratios, growth with size, and whether a time can be trusted.

In: numbers. Out: intervals, verdicts and reasons. Imports base; no torch.
"""
