"""Results and progress in a notebook: HTML that needs no script and inherits its colours, so it suits light and dark.

In: a derived record, or what a run reports. Out: a fragment of HTML whose every text is escaped, or one display that is
updated. Imports reporting/terminal, whose report it writes as HTML; no torch.
"""
