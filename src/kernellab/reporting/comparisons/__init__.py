"""Comparisons of runs: as text for a terminal, as a page, and as Markdown for a pull request.

In: a comparison. Out: text. Names from records are escaped for where they stand. Imports comparison and the packages of
reporting that know numbers, tables and documents; no torch.
"""
