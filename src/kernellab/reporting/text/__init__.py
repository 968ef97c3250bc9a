"""Numbers, sentences and tables as people read them, fitted to a terminal.

In: plain values. Out: text, styled or not. Imports base, and declaration for the labels of cases; no torch.
"""
