"""What an op is: its declaration, implementations, cases, inputs, passes and cost, and how a user names one.

Comes in: an op file, or its name and the sizes, dtypes and options a user asks for. Goes out: `Op` objects with their
cases and inputs. `inputs`, `passes` and `pass_cost` import torch; the other modules do not, because the process of the
command reads them. Nothing here runs, judges or times an implementation. Imports base.
"""
