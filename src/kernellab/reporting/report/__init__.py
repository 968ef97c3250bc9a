"""The report of a run: one HTML file that needs no network, with everything a record says.

In: derived records. Out: the text of `report.html`. A section is a module of `sections/`; `document` joins them. What
they are made of is in `parts/`. Imports the other packages of reporting; no torch.
"""
