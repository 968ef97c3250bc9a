"""Pages and pictures, each a single file that needs no network: the timeline, flame graphs, explained PTX.

In: a trace, stacks with their times, or explained machine code. Out: HTML, SVG and text. Imports traces, analysis, the
packages of machine code, base and reporting.text; no torch.
"""
