"""The functions behind `kl.*`: benchmark, check, profile, ptx and helpers for notebooks.

Comes in: a user's callables and ops, in the user's own process. Goes out: numbers and reports to look at. The
functions import what they need, including torch, when they are called.
"""
