"""Chooses few from many: combinations in which all pairs occur, and smaller cases that stand in for a large one.

Comes in: options, factors, or an op and a case. Goes out: what trials are made from. Imports declaration; no torch.
"""
