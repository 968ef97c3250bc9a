"""Whether an implementation is right at a trial, in this process.

An implementation and a trial come in; an `Outcome` goes out: its status, the reason, errors and notes. `declared_case`
does this for a declared case and its option values, `search` until a random trial fails. Nothing here times, starts a
process or records anything. Imports base, machine, declaration, trials, accuracy and interpreter; needs torch.
"""
