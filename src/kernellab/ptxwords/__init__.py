"""Explains PTX line by line to someone who has never read any.

In: a parsed PTX module. Out: a sentence for every line, with the stage of the kernel it belongs to and the line of the
author's program it was compiled from. `arithmetic`, `memory` and `cooperation` each hold the sentences for a group of
opcodes: a new opcode is a function there and an entry in the module's `DESCRIBERS`. Imports machinecode only; no torch.
"""
