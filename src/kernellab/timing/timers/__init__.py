"""The timers, one module each. To add a timer, add a module with a subclass of `Timer`; it is discovered here.

In: the name of a timer, a device, a state of the cache. Out: a timer that times calls, or the attributes of
its class. Imports `timing`; torch only when a timer is made.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import TYPE_CHECKING, TypeGuard

from kernellab.timing.timer import COLD, BurstTimer, ProfilerTimer, Timer

if TYPE_CHECKING:
    import torch

AUTO = "auto"
REQUIRED = ("name", "devices", "overhead_rank", "measures", "help")  # attributes without a default


def _discover() -> dict[str, type[Timer]]:
    timers = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        own = [value for value in vars(module).values() if _is_timer(value) and value.__module__ == module.__name__]
        if not own:
            raise TypeError(f"{module.__name__} has no timer: it needs a subclass of BurstTimer or ProfilerTimer")
        for timer in own:
            missing = [name for name in REQUIRED if not hasattr(timer, name)]
            if missing:
                raise TypeError(f"{module.__name__}.{timer.__name__} lacks {', '.join(missing)} (see timing/timer.py)")
            timers[timer.name] = timer
    return timers


def _is_timer(value: object) -> TypeGuard[type[Timer]]:
    return inspect.isclass(value) and issubclass(value, Timer)


TIMERS = _discover()


def timers_on(device_type: str) -> list[type[Timer]]:
    """The timers of a device type; the first is the default."""
    timers = [timer for timer in TIMERS.values() if device_type in timer.devices]
    return sorted(timers, key=lambda timer: (device_type not in timer.default_on, timer.name))


def default_timer(device_type: str) -> type[Timer]:
    """The timer that `--timer auto` means."""
    return timers_on(device_type)[0]


def is_duration(name: str | None) -> bool:
    """Whether a timer measures how long a call takes. A timer of a record that is unknown here is assumed to."""
    return name not in TIMERS or TIMERS[name].is_duration


def needs_profiler(name: str | None) -> bool:
    return name in TIMERS and TIMERS[name].needs_profiler


def timer_help() -> str:
    """The text of `--timer` in `--help`."""
    ordered = dict.fromkeys(timer for device_type in ("cuda", "cpu") for timer in timers_on(device_type))
    return f"{AUTO}, " + ", ".join(f"{timer.name} ({timer.help})" for timer in ordered)


def burst_timer(device: torch.device, name: str = AUTO, cache: str = COLD) -> BurstTimer:
    """A timer for rounds in a worker."""
    timer = _class_of(device, name)(device, cache)
    if not isinstance(timer, BurstTimer):
        raise TypeError(f"the {name} timer needs a profiler and cannot be used in rounds")
    return timer


def profiler_timer(device: torch.device, name: str, cache: str) -> ProfilerTimer:
    """A timer that reads its times from a profiler."""
    timer = _class_of(device, name)(device, cache)
    if not isinstance(timer, ProfilerTimer):
        raise TypeError(f"the {name} timer does not read from a profiler")
    return timer


def _class_of(device: torch.device, name: str) -> type[Timer]:
    return default_timer(device.type) if name == AUTO else TIMERS[name]
