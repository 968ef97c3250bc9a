"""Implementations that attack the tool: its serialiser, its terminal, its processes; and an option without JSON."""

import json
import os
import time

import kernellab as kl


@kl.op(cases=kl.cases(shape=[(8, 8)]), options={"limit": [float("inf"), 1.0]})
def clamp(x, *, limit=float("inf")):
    return x.clamp(max=limit)


@clamp.impl("garbles")
def _(x, *, limit):
    json.dumps = lambda *args, **more: "nothing you can read"
    return x.clamp(max=limit)


@clamp.impl("[/]")
def _(x, *, limit):
    return x.clamp(max=limit)


@clamp.impl("forks")
def _(x, *, limit):
    if os.fork() == 0:
        os.setsid()
        time.sleep(15)
        os._exit(0)
    os._exit(5)
