"""Rounds of blocks: in each round every implementation has one block, in random order, so that a chip that warms up or
another state of the machine affects all of them alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kernellab.energy.blocks import Block, Load, Plan, Poller, Response, measure_response, run_block
from kernellab.energy.documents import EnergyJson

BLOCKS = 12  # the 99 % interval of their median leaves out the lowest and the highest
QUICK_BLOCKS = 8  # the fewest that have an interval of 99 % confidence

_PLAN = Plan()

# Runs the calls of one implementation: the body uses the load, and what the calls did is judged at its end.
RunLoad = Callable[[str, Callable[[Load], object]], None]


@dataclass(frozen=True)
class EnergyRounds:
    """The blocks of each implementation, round by round. Their number is fixed before the first one: an end that
    depended on the results would make intervals too narrow."""

    response: Response
    blocks: Mapping[str, Sequence[Block]]


def measure_energy(
    names: Sequence[str],
    poller: Poller,
    run_load: RunLoad,
    observe: Callable[[], float | None],
    *,
    rounds: int = BLOCKS,
    plan: Plan = _PLAN,
    seed: int = 0,
) -> EnergyRounds:
    """Measure implementations. `observe` returns the clock of the device."""
    responses: list[Response] = []
    run_load(names[0], lambda load: responses.append(measure_response(poller, load)))
    order = random.Random(seed)
    blocks: dict[str, list[Block]] = {name: [] for name in names}
    response = responses[0]
    for _ in range(rounds):
        for name in order.sample(names, len(names)):
            run_load(name, _Add(blocks[name], lambda load: run_block(poller, load, plan, response, observe)))
    return EnergyRounds(response, blocks)


@dataclass(frozen=True)
class _Add:
    """Adds the block that a load runs to those of its implementation."""

    blocks: list[Block]
    run: Callable[[Load], Block]

    def __call__(self, load: Load) -> None:
        self.blocks.append(self.run(load))


def to_json(measured: EnergyRounds, impl: str, counter: str, sets_bytes: int, contended: str | None) -> EnergyJson:
    """What was measured of one implementation."""
    blocks, response = measured.blocks[impl], measured.response
    return {
        "status": "ok",
        "reason": None,
        "counter": counter,
        "joules": [block.joules for block in blocks],
        "blocks": list(range(len(blocks))),
        "us": [block.us for block in blocks],
        "watts": [block.watts for block in blocks],
        "clocks_mhz": [block.clock_mhz for block in blocks],
        "seconds": [block.seconds for block in blocks],
        "resolution": [block.resolution for block in blocks],
        "step_s": response.step_s,
        "lead_s": response.lead_s,
        "idle_w": response.idle_w,
        "sets_bytes": sets_bytes,
        "contended": contended,
    }


def not_measured(reason: str) -> EnergyJson:
    return {
        "status": "skipped",
        "reason": reason,
        "counter": None,
        "joules": [],
        "blocks": [],
        "us": [],
        "watts": [],
        "clocks_mhz": [],
        "seconds": [],
        "resolution": [],
        "step_s": None,
        "lead_s": None,
        "idle_w": None,
        "sets_bytes": None,
        "contended": None,
    }
