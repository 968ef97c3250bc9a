"""What sections of a report are made of: the run they read, tables, and figures.

In: values of a record. Out: plain values that templates and scripts show. No section knows another; no torch.
"""
