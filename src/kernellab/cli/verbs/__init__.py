"""The verbs of `klab`, one module each. Adding a module here adds a verb; nothing else has to be edited.

A verb's name is its module's name, with dashes for underscores. Its module has

- `SUMMARY`: the line in `klab --help`,
- `arguments(parser)`: adds the verb's arguments and options to its own parser,
- `run(args)`: does the work and returns the exit code, by the table in docs/commands.md,
- optionally `ORDER`: a number that places it in `klab --help`; verbs without one come last.

`klab --help` imports every module of this folder, so a module imports what is slow inside its functions.
Imports cli and, inside functions, everything below it.
"""
