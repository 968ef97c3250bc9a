"""Whether the values of a result are right.

A trial comes in; its inputs, the float64 oracle and the peer's results go out (`PreparedTrial`), and for an
implementation's results their errors and a judgement. Nothing here calls the implementation that is judged. Imports
base, machine, declaration and trials; needs torch.
"""
