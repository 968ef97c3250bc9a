"""Records in the terminal: results, progress, and the report of each verb.

In: derived records and the documents of verbs. Out: lines on a console, all tables through reporting.text.table.
Imports reporting.text and reporting.charts, and the packages whose results it shows; no torch.
"""
