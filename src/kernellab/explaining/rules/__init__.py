"""The rules of `klab explain`: one file each. Adding a rule is adding a file here.

A rule looks for one kind of flaw in a `Subject` and returns a `Finding`, or None. Its file has:

- the name: `low_occupancy.py` is the rule `low-occupancy`
- a docstring: the first line says what the rule finds, the rest how the gain is computed
- `NEEDS` and `GAIN`: what the rule looks at and how it estimates the gain, for the table in docs/explain.md
- `examine(subject) -> Finding | None`
- optionally `PRECEDENCE`, where the finding is not ranked by its gain

Imports findings and gpumodel; no torch.
"""
