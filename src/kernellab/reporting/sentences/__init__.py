"""What is said of a record in words and tables, the same in the terminal and in documents.

In: derived records. Out: sentences, and tables of `reporting.text`. How they are printed is decided by the packages
above. Imports record, explaining, reporting.charts and reporting.text; no torch.
"""
