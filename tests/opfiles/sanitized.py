"""Implementations to run under a stand-in for compute-sanitizer: an ordinary one, one that hangs, one that exits."""

import os
import time

import kernellab as kl


@kl.op(cases=kl.cases(shape=[(8, 16)], dtype=["float32"]))
def double(x):
    return x * 2


@double.impl("python-fine")
def _(x):
    print("half a line without an end", end="")
    return x + x


@double.impl("python-hangs")
def _(x):
    if x.numel() % 2:
        time.sleep(600)
    return x + x


@double.impl("python-exits")
def _(x):
    if x.numel() % 2:
        os._exit(7)
    return x + x


@double.impl("python-raises")
def _(x):
    raise ValueError("never")
