"""Records, results and events for tests."""

from kernellab.record.event import Event
from kernellab.record.journal import empty_record

ENVIRONMENT = {"python": "3.11.2", "packages": {"torch": "2.13"}, "gpus": [], "cpu": {"name": "C"}, "commit": "c0"}


def event(name, **fields):
    """An event by its name in the journal; `pass` is given as `**{"pass": …}`."""
    return Event.parse({"event": name, **fields})


def result(impl, samples=(), *, status="ok", reason=None, rounds=None, **more):
    times = []
    if samples:
        times = [
            {
                "pass": "forward",
                "timer": "clock",
                "cache": "cold",
                "status": "ok",
                "reason": None,
                "samples_us": list(samples),
                "rounds": list(rounds or range(len(samples))),
            }
        ]
    return {
        "op": "f",
        "impl": impl,
        "kind": more.pop("kind", "python"),
        "case": {"dims": {"...": [8]}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cpu"},
        "check": {"status": status, "reason": reason, "checked_at": {"interpreter": False}, **more.pop("check", {})},
        "times": times,
        "cost": {"forward": more.pop("cost")} if "cost" in more else {},
        "gradients": None,
        "memory": {},
        "built": None,
        "kernels": None,
        "inside": None,
        "traffic": None,
        "guards": [],
        **more,
    }


def record(*results, ceilings=None):
    machine = {"device": "cpu", "name": "a machine", "ceilings": ceilings}
    return {**empty_record(), "results": list(results), "machine": machine, "complete": True}


def timed(impl, us, **more):
    cost = {"bytes_read": 500_000, "bytes_written": 500_000, "flops": {}}
    errors = {"max": 0.5, "q999": 0.4, "rel_l2": 0.0, "max_abs": 0.0, "at": [0]}
    check = {"errors": errors, "peer": {"impl": "torch", **errors}, "outside": [], "notes": []}
    return result(impl, [us + i / 100 for i in range(20)], cost=cost, check=check, **more)
