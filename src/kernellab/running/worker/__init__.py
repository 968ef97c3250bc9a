"""The worker process: it loads op files, and checks, times, profiles and inspects their implementations.

Comes in: commands of `running.protocol`, one after the other. Goes out: events, among them the begin and the end of
each phase, by which the parent finds the culprit when the worker dies. `main` dispatches the commands and `channel` is
the connection; `group` (with `series`), `battery`, `profile` and `inspection` carry the commands out; `guards`
detects implementations that cheat or change the process they share. Imports record,
`running.protocol` and every package that checks, times, captures or analyses; never `running.parent`. Needs torch.
"""
