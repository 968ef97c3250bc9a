"""Two right implementations, and one for every kind of failure."""

import ctypes
import os
import time

import torch

import kernellab as kl


@kl.op(cases=kl.cases(shape=[(64, 128)], dtype=["float32"]))
def double(x):
    return x + x


@double.impl("good-a")
def _(x):
    return x * 2


@double.impl("good-b")
def _(x):
    return torch.add(x, x)


@double.impl("raises")
def _(x):
    raise ValueError("no luck today")


@double.impl("wrong-shape")
def _(x):
    return (x * 2)[:-1]


@double.impl("wrong-dtype")
def _(x):
    return (x * 2).double()


@double.impl("wrong-values")
def _(x):
    return x * 2.001


@double.impl("zeros")
def _(x):
    return torch.zeros_like(x)


@double.impl("mutates")
def _(x):
    return x.mul_(2).clone()


@double.impl("mutates-copies", clone=True)
def _(x):
    return x.mul_(2).clone()


@double.impl("segfault")
def _(x):
    ctypes.string_at(0)


@double.impl("hangs")
def _(x):
    while True:
        time.sleep(0.01)


@double.impl("exits")
def _(x):
    os._exit(0)


@double.impl("returns-none")
def _(x):
    return None
