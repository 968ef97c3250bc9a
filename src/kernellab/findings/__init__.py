"""What a finding is, how its gain is estimated, and how findings are ranked: by gain.

In: findings of a rule of `explaining/` or of an analysis of a trace (`analysis/`). Out: `Finding` objects in the order
in which to act on them, and as JSON. Imports base alone; no torch.
"""
