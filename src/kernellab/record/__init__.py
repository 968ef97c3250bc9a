"""The record of a run: what was observed, stored so that nothing is lost, and the verdicts computed from it.

In: events, from workers and from the parent. Out: a journal and a record on disk (`journal`, `reading`, `merge`), and
verdicts (`verdict`, `batteries`). `schema` declares the JSON, and three modules declare the events. Importing this
package declares every event that a journal may hold.
Imports base, stats, machine, gpumodel, and findings for their JSON; no torch.
"""

from kernellab.record import battery_events as battery_events
from kernellab.record import result_events as result_events
from kernellab.record import run_events as run_events
