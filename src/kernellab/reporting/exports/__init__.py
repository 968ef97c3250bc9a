"""Results as flat tables for other programs: rows of named columns, CSV and data frames.

In: a derived record. Out: one row for each op, implementation, case and pass; text that a spreadsheet opens as data; a
data frame where pandas is installed. Imports record and what is below it; no torch.
"""
