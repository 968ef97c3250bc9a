"""HTML documents that need no network: one base template and style, escaped text, and a security policy.

In: a template and its values. Out: the text of one file. Everything from a record or a trace is data: templates escape
it, and scripts read it as JSON. What a page says is decided by the packages above. Imports base; no torch.
"""
