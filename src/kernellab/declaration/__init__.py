"""What an op is: its declaration, implementations, cases, inputs, passes and cost, and how a user names one.

In: an op file, or the name of an op, and the sizes, dtypes and options that a user requests. Out: `Op` objects with
their cases and inputs. `inputs`, `passes` and `cost` import torch. The other modules do not, because the parent process
imports them. Nothing here judges or times an implementation. Imports base and vocabulary.
"""
