"""Records of a GPU at its power limit, with clocks, the order of the rounds, and energies."""

import random

from kernellab.energy.rounds import not_measured
from support.records import record, result

ROUNDS = 40
COST = {"bytes_read": 4 << 26, "bytes_written": 2 << 26, "flops": {"matmul": 2 * 8192**3}}
CEILINGS = {
    "copy_gbps": 4000.0,
    "matmul_tflops": {"bfloat16": 800.0},
    "matmul_by_clock": {
        "bfloat16": [
            {"tflops": 800.0, "clock_mhz": 1980.0, "power_w": 500.0},
            {"tflops": 600.0, "clock_mhz": 1480.0, "power_w": 700.0},
        ]
    },
}


def _orders(names=("a", "b", "manual")):
    """Which implementation ran before each one, by round: three implementations in random order."""
    order, last, rounds = random.Random(0), "", []
    for _ in range(ROUNDS):
        before = {}
        for name in order.sample(names, len(names)):
            before[name], last = last, name
        rounds.append(before)
    return rounds


ORDERS = _orders()


def energy(joules, count=12):
    """Blocks that take `joules` per call, within a part in a thousand."""
    return {
        **not_measured(""),
        "status": "ok",
        "reason": None,
        "counter": "nvml",
        "joules": [joules * (1 + 1e-4 * (at % 5)) for at in range(count)],
        "blocks": list(range(count)),
        "us": [1500.0] * count,
        "watts": [joules / 1.5e-3] * count,
        "clocks_mhz": [1530.0] * count,
        "seconds": [0.32] * count,
        "resolution": [0.003] * count,
        "step_s": 0.1,
        "lead_s": 0.25,
        "idle_w": 120.0,
        "sets_bytes": 1 << 30,
    }


def powered(impl, us, joules=None, *, clock=1480.0, limit_w=700.0, order=True, cause="sw-power-cap"):
    """An implementation that was timed at the power limit. `order`: whether rounds say what ran before what."""
    made = result(impl, [us * (1 + 2e-4 * (at % 7)) for at in range(ROUNDS)], cost=COST)
    made["case"] |= {"dtype": "bfloat16", "device": "cuda", "dims": {"N": 8192}}
    series = made["times"][0]
    series["timer"] = "events"
    series["telemetry"] = {
        "t": [0.05 * at for at in range(20)],
        "sm_mhz": [clock] * 19 + [clock + 200],
        "mem_mhz": [3201.0] * 20,
        "power_w": [limit_w] * 20,
        "limit_w": [limit_w] * 20,
        "throttle": [[cause]] * 20,
        "others": [0] * 20,
    }
    if order:
        series["before"] = [before[impl] for before in ORDERS]
        series["clocks_mhz"] = [clock + 15 * (at % 2) for at in range(ROUNDS)]
    if joules is not None:
        series["energy"] = energy(joules)
    return made


def powered_record(*results):
    made = record(*(results or (powered("a", 1800.0, 1.0), powered("b", 1800.0, 0.8))), ceilings=CEILINGS)
    made["machine"]["device"] = "cuda:0"
    return made
