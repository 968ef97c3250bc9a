"""Records to compare, with times drawn at random."""

import math
import random

from support.records import ENVIRONMENT, record, result

MACHINE = "a machine"


def timed_results(rng, *, varies=0.0016, slower=None, results=10, rounds=40, us=127.0):
    """One run: each result's time varies from run to run. `slower` maps the number of a result to its factor."""
    factors = slower or {}
    drawn = []
    for number in range(results):
        run = rng.gauss(0, varies)
        times = [us * factors.get(number, 1.0) * math.exp(run + rng.gauss(0, 0.003)) for _ in range(rounds)]
        drawn.append(result(f"impl-{number}", times))
    return drawn


def run(*results, machine=MACHINE, **environment):
    """A record of a class of machine."""
    made = record(*results)
    made["machine"] |= {"class": machine, "name": machine}
    made["environment"] = {**ENVIRONMENT, **environment}
    made["stages"] = ["check", "time"]
    return made


def random_run(seed, **options):
    return run(*timed_results(random.Random(seed), **options))


def variation(relative=0.0016, *, runs=10, us=127.0, cases=None, machine=MACHINE):
    """What `klab doctor --aa` stores."""
    points = cases if cases is not None else [(us, relative)]
    return {
        "machine": machine,
        "measured_at": "2026-11-15T10:00:00+0000",
        "versions": {"torch": "2.13"},
        "runs": runs,
        "cases": [
            {"case": {}, "timer": "clock", "cache": "cold", "median_us": time, "variation": value}
            for time, value in points
        ],
    }
