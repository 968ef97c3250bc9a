"""Shows records and verdicts: in the terminal, as charts, as profiles in words, as pages.

In: derived records and documents, plain data. Out: text and files. Imports base, declaration, stats, record and the
packages whose results it shows; never torch.
"""
