"""Signals that arrive while a trace is written."""

import signal

import pytest

from kernellab.profiler.signals import defer_signals


def test_a_signal_takes_effect_after_the_block():
    done = []

    def interrupted():
        with defer_signals():
            signal.raise_signal(signal.SIGINT)
            done.append("block")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signals_can_be_dropped():
    done = []
    with defer_signals(deliver=False):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        done.append("block")
    assert done == ["block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
