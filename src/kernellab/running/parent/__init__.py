"""The parent's side of a run: it plans the work, starts workers, attributes their deaths and writes the journal.

In: settings, a journal, and a `Progress` that shows how far the run is. Out: events in the journal, and
files beside it. Op files are never executed here, so no implementation can harm this process. Imports base,
counters, declaration, machine, profiler, record, sanitizer, stats, timing, workloads, `running.processes` and
`running.protocol`; no torch.
"""
