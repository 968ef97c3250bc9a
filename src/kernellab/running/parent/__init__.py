"""The parent's side of a run: it plans the work, starts workers, attributes their deaths and writes the journal.

Comes in: settings, a journal, and a `Progress` that shows how far the run is. Goes out: events in the journal, and
files beside it. An op file is never executed here, so that no implementation can harm this process. Imports base,
counters, declaration, machine, profiler, record, sanitizer, stats, timing, workloads, `running.processes` and
`running.protocol`; no torch.
"""
