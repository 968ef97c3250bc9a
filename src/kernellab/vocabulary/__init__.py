"""The words an author describes an input with: the sizes of its dims and what its numbers look like.

Comes in: text such as `1 S D/2`, and sizes; goes out: sizes, and functions that make values. Knows no op and no case.
`value_kinds` imports torch; `dims` does not, because the process of the command reads it. Imports base.
"""
