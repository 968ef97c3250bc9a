"""Records for tests of the report, made of sample records: a large one, and one with something for every section."""

from __future__ import annotations

import copy

from support.sample_records import sample_document


def large_record() -> dict:
    """3 ops, 6 implementations, 10 cases: a run of an H200 at other sizes, with its series, kernels and a battery."""
    run, checked, explained = (
        sample_document(name, "h200") for name in ("bench-softmax", "check-square", "explain-softmax")
    )
    groups = [run["results"][at : at + 6] for at in range(0, len(run["results"]), 6)]
    results = []
    for op in ("softmax", "gelu", "rms_norm"):
        for number in range(10):
            dtype = ("float32", "bfloat16")[number % 2]
            for result in copy.deepcopy(groups[number % len(groups)]):
                factor = 2.0 ** (number // 2)
                result["op"] = op
                result["case"] |= {"dims": {"...": [4096], "N": 256 << number // 2}, "dtype": dtype}
                for series in result["times"]:
                    series["samples_us"] = [value * factor for value in series["samples_us"]]
                results.append(result)
    trials = [
        {**trial, "op": op, "impl": "manual" if trial["impl"] == "cuda-inline" else trial["impl"], "number": number}
        for op in ("softmax", "gelu", "rms_norm")
        for number, trial in enumerate(checked["trials"])
    ]
    return {**run, "results": results, "trials": trials, "code": explained["code"], "spent": []}


def rich_record() -> dict:
    """A small run with something for every section: times, kernels, machine code, a battery, a search, a sanitizer."""
    run, checked, explained, panel = (
        sample_document(name, "h200") for name in ("run-gelu", "check-square", "explain-softmax", "bench-softmax")
    )
    trials = [
        {**trial, "op": "gelu", "status": "wrong", "reason": "values: at [0, 1]"} if number % 9 == 0 else trial
        for number, trial in enumerate(checked["trials"][::60])
    ]
    search = {"op": "gelu", "impl": "triton", "drawn": 10, "outside": 1, "seconds": 1.5, "shrinking": 3}
    finding = {
        "kind": "invalid read",
        "severity": "error",
        "kernel": "gelu_tile",
        "file": "gelu.cu",
        "line": 7,
        "bytes": 16,
    }
    finding |= {"detail": "out of bounds", "count": 2, "trial": "33×129 · float32", "own": True}
    sanitized = {"op": "gelu", "impl": "cuda", "tool": "memcheck", "planned": 3, "cases": 2, "exit": 1, "seconds": 9.5}
    sanitized |= {
        "raised": {"ValueError: a size": 1},
        "findings": [finding],
        "errors": 2,
        "complaints": ["no debugger"],
    }
    sanitized |= {"unfinished": None, "log": "artifacts/memcheck.txt"}
    guards = [{"name": "strides", "detail": "its strides differ from those of the reference"}]
    timed = [{**result, "times": result["times"][:6]} for result in panel["results"][:6]]
    return {
        **run,
        "results": [{**run["results"][0], "guards": guards}, *run["results"][1:], *timed],
        "trials": trials,
        "searches": [{**search, "script": ["import torch"], "file": "artifacts/gelu.py"}],
        "sanitized": [sanitized],
        "code": explained["code"][-2:-1],
        "stages": ["check", "battery", "sanitize", "time", "explain"],
    }
