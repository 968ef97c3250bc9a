"""What a finding is, how its gain is estimated, and how findings are ranked: by gain.

In: what a rule of `explaining/` or an analysis of a trace (`analysis/`) found. Out: `Finding` objects in the order in
which to act on them, and as JSON. Imports base alone; no torch.
"""
